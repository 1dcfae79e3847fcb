// docs/guides/agents.md, "Kill the pod that speaks", as a visitor types it: a dev fleet with the ttl of production and a poem that
// takes a minute. The pod named in the turn is killed in the middle of it. The time until another pod speaks is a figure; the
// test does not judge it.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type { Page } from '@fleetline/protocol'
import { atEnd } from '../support/cleanup.ts'
import { CLONE_ENV, cloneFor, startFleet } from '../support/clone.ts'
import { eventually } from '../support/eventually.ts'
import { blocksIn } from '../support/guide.ts'
import { call } from '../support/http.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/agents.md'), 'utf8')
const [command] = blocksIn(PAGE, 'Talk')
const [send, kill] = blocksIn(PAGE, 'Kill the pod that speaks').filter(({ language }) => language === 'sh')
const KILLED_AT = 300 // characters

test('E5 D4: if a visitor kills the pod that says a poem, the poem is still whole and stored once', async (t) => {
  const clone = cloneFor(t)
  const fleet = await startFleet(t, 'npm run fleetline -- dev', clone)
  const env = { ...CLONE_ENV, FLEETLINE_URL: `http://localhost:${fleet.api}` }
  const visitor = spawn('sh', ['-c', `${command!.text}${send!.text}`], {
    cwd: clone,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(visitor, 'close')
  atEnd(t, () => visitor.kill())
  let [printed, notes] = ['', '']
  visitor.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text))
  visitor.stderr.setEncoding('utf8').on('data', (text: string) => (notes += text))
  const details = () => `${notes}${printed}${fleet.output()}`
  await eventually(() => assert.ok(printed.length >= KILLED_AT), {
    what: 'words',
    details,
    patienceMs: 60_000,
  })
  const [, pod] = /is running on (pod-\d) \(attempt 1\)/.exec(notes)!
  await promisify(execFile)('sh', ['-c', kill!.text.replace('pod-1', pod!)], { cwd: clone })
  const killedMs = performance.now()
  const isTaken = () => assert.match(notes, /\(attempt 2\)\n$/)
  await eventually(isTaken, { what: 'the second attempt', details, patienceMs: 60_000 })
  t.diagnostic(`figure takeover_s ${(performance.now() - killedMs) / 1000}`)
  const [code] = (await ended) as [number]
  assert.equal(code, 0, notes)
  const url = `http://localhost:${fleet.api}/v1/sessions/demo/messages`
  const { items } = (await call('GET', url)).body as unknown as Page
  const replies = items.filter(({ role }) => role === 'assistant').map(({ parts }) => parts[0]!['text'])
  assert.deepEqual(replies, [printed.replace(/\n$/, '')])
  assert.equal(await fleet.stop(), 0, fleet.output())
})
