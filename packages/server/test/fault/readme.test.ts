// The README's "Try it" as a stranger types it: every command as written, but for the ports, which may be taken here.
// It stands in a directory that links to the clone: PostgreSQL, which may run as another user, can enter that.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { withoutSettings } from '../support/program.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const ENV = { ...withoutSettings(process.env), FLEETLINE_PORT: '0', FLEETLINE_OPERATOR_PORT: '0' }
const PATIENCE_MS = 120_000 // the data of a server is made on a disk that may be busy

function blocksOf(section: string): string[] {
  const [, text = ''] = readFileSync(join(ROOT, 'README.md'), 'utf8').split(`## ${section}\n`)
  return Array.from(text.split('\n## ')[0]!.matchAll(/```sh\n([^]*?)```/g), ([, block]) => block!.trim())
}

function cloneFor(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'fleetline-readme-'))
  chmodSync(path, 0o755)
  atEnd(t, () => rmSync(path, { recursive: true, force: true }))
  const entries = readdirSync(ROOT).filter((name) => name !== '.git' && name !== '.fleetline')
  for (const name of entries) symlinkSync(join(ROOT, name), join(path, name))
  return path
}

function startFleet(t: TestContext, command: string, cwd: string) {
  const child = spawn('sh', ['-c', command], { cwd, env: ENV, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const pipe of [child.stdout, child.stderr])
    pipe.setEncoding('utf8').on('data', (text: string) => (output += text))
  const closed = once(child, 'close')
  // npm passes no signal on; the fleet's own process is in its lock.
  const signal = (name: NodeJS.Signals) =>
    process.kill(Number(readFileSync(join(cwd, '.fleetline/lock'))), name)
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  atEnd(t, async () => {
    if (hasEnded()) return
    try {
      signal('SIGKILL')
      await closed
    } catch {
      child.kill('SIGKILL') // there is no lock yet; the rest ends with this file's process group
    }
  })
  return { signal, hasEnded, output: () => output, code: () => child.exitCode }
}

test("the README's five minutes", async (t) => {
  const [install, dev, elsewhere] = blocksOf('Try it')
  assert.equal(install, 'npm ci')
  const clone = cloneFor(t)
  const fleet = startFleet(t, dev!, clone)
  const wait = { patienceMs: PATIENCE_MS, details: fleet.output }
  await eventually(() => assert.match(fleet.output(), /fleet +ready/), { what: 'the fleet', ...wait })
  const [api, operator] = ['api', 'operator'].map(
    (name) => new RegExp(`${name} +http://localhost:(\\d+)`).exec(fleet.output())![1]!,
  )

  const answers: string[] = []
  for (const line of elsewhere!.split('\n')) {
    const command = line
      .replace('localhost:4400', `localhost:${api}`)
      .replace('localhost:4401', `localhost:${operator}`)
    const env = { ...ENV, FLEETLINE_URL: `http://localhost:${api}` }
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: clone, env })
    answers.push(stdout)
  }
  const expected = [
    /^\{"state":"ok"/,
    /^fleetline_/m,
    /"openapi":"3.1/,
    /0001_schema\tapplied/,
    /databaseUrl\t/,
    /^session\tses_/,
  ]
  assert.equal(answers.length, expected.length)
  for (const [index, answer] of answers.entries()) assert.match(answer, expected[index]!)

  fleet.signal('SIGINT')
  await eventually(() => assert.ok(fleet.hasEnded()), { what: 'the fleet to end', ...wait })
  assert.equal(fleet.code(), 0, fleet.output())
})
