// docs/guides/write-an-agent.md as a reader types it: a dev fleet, and the agents of the guide behind one URL, one after the other.
// A message that is sent through either pod is answered, and can be read through the other. Every agent passes `agents check`.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import type { Page } from '@fleetline/protocol'
import { CLONE_ENV, cloneFor, startFleet } from '../support/clone.ts'
import { eventually } from '../support/eventually.ts'
import { portInFront } from '../support/front.ts'
import { blocksIn, plain } from '../support/guide.ts'
import { call } from '../support/http.ts'
import { shell } from '../support/shell.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/write-an-agent.md'), 'utf8')
const AGENTS = [
  ['An agent', 'examples/fetch-agent/route.ts'],
  ['With the AI SDK', 'examples/ai-sdk-agent/route.ts'],
  ['In Python', 'examples/python-agent/agent.py'],
] as const
const textOf = (section: string, index: number) => blocksIn(PAGE, section)[index]!.text

/** The URL of a pod in a dev fleet. */
function doorOf(clone: string, name: string): Promise<string> {
  const log = () => readFileSync(join(clone, `.fleetline/${name}.log`), 'utf8')
  const find = () => {
    const line = /^.*"listening".*"gateway".*$|^.*"gateway".*"listening".*$/m.exec(log())![0]
    return `http://localhost:${(JSON.parse(line) as { port: number }).port}`
  }
  return eventually(find, { what: `the door of ${name}`, details: log })
}

async function startAgent(t: TestContext, command: string, cwd: string): Promise<number> {
  const output = shell(t, command, { cwd, env: { ...CLONE_ENV, PORT: '0' } })
  const find = () => Number(/Listening on http:\/\/localhost:(\d+)/.exec(output())![1])
  return eventually(find, { what: command, details: output })
}

/** Sends what the command of the guide sends, without starting a process. */
async function sayThrough(door: string): Promise<void> {
  const sent = await call('POST', `${door}/v1/sessions/local/messages`, { text: 'good morning' })
  const { turn } = sent.body as { turn: string }
  const isDone = async () =>
    assert.equal((await call('GET', `${door}/v1/turns/${turn}`)).body['state'], 'done')
  await eventually(isDone, { what: `turn ${turn} is done` })
}

/** Checks the first agent as the guide does on the command line, and the others as it does in a test. */
async function checkEach([first, ...others]: readonly number[], clone: string): Promise<void> {
  const [command, output, program] = [0, 1, 2].map((index) => textOf('Check your agent', index)) as [
    string,
    string,
    string,
  ]
  const env = { ...CLONE_ENV, AGENT_SECRET: readFileSync(join(clone, '.fleetline/agent-secret'), 'utf8') }
  const run = async (port: number, file: string, args: readonly string[], text: string) => {
    const typed = text.replace('http://localhost:3000/', `http://localhost:${port}/`)
    return (await promisify(execFile)(file, [...args, typed], { cwd: clone, env })).stdout
  }
  const asModule = ['--conditions=fleetline-source', '--input-type=module', '-e']
  const [printed] = await Promise.all([
    run(first!, 'sh', ['-c'], command),
    ...others.map((port) => run(port, process.execPath, asModule, program)),
  ])
  assert.equal(plain(printed), plain(output))
}

test('the guide to writing an agent shows the examples as they are', () => {
  for (const [section, file] of AGENTS)
    assert.equal(textOf(section, 0), readFileSync(join(ROOT, file), 'utf8'))
})

test('every agent of the guide answers through either pod, and rejects unsigned calls', async (t) => {
  let target = 0
  const ports: number[] = []
  const url = `http://localhost:${await portInFront(t, () => target)}/`
  const clone = cloneFor(t)
  const fleet = await startFleet(t, textOf('A fleet', 0).replace('http://localhost:3000/', url), clone)
  const doors = await Promise.all(['pod-1', 'pod-2'].map((name) => doorOf(clone, name)))
  const [talk, shown] = [textOf('An agent', 2), textOf('An agent', 3)]
  for (const [section] of AGENTS) {
    target = await startAgent(t, textOf(section, 1), clone)
    ports.push(target)
    const env = { ...CLONE_ENV, FLEETLINE_URL: doors[0] }
    const { stdout } = await promisify(execFile)('sh', ['-c', talk], { cwd: clone, env })
    assert.equal(stdout, shown, section)
    await sayThrough(doors[1]!)
    const unsigned = await fetch(url, { method: 'POST', body: '{}' })
    assert.equal(unsigned.status, 401, section)
  }
  const replies = await Promise.all(
    doors.map(async (door) => {
      const { items } = (await call('GET', `${door}/v1/sessions/local/messages`)).body as unknown as Page
      return items
        .filter(({ role }) => role === 'assistant')
        .map(({ parts }) => parts.find(({ type }) => type === 'text')?.text)
    }),
  )
  const all = AGENTS.flatMap(() => doors.map(() => shown.trim()))
  assert.deepEqual(replies, [all, all])
  await checkEach(ports, clone)
  assert.equal(await fleet.stop(), 0, fleet.output())
})
