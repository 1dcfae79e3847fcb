// D1: `fleetline sessions tail` runs as a process of its own. Its pod is killed, and it resumes through the other pod.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '@fleetline/protocol'
import { createFront } from '../../src/cli/dev/front.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { runCli } from '../support/program.ts'

test('D1: a tail whose pod is killed prints every message once, in order', async (t) => {
  const url = await databaseFor(t)
  const [first, second] = await Promise.all([startPod(t, url), startPod(t, url)])
  let live = first
  const targets = () => [Number(new URL(live.gateway).port)]
  const front = createFront({ name: 'front', host: '127.0.0.1', port: 0, random: systemRandom(), targets })
  await front.start()
  atEnd(t, () => front.stop())
  const { session } = await makeSession(first.gateway)
  const send = async (from: number, to: number) => {
    for (let n = from; n <= to; n += 1) {
      const sent = await call('POST', `${second.gateway}/v1/sessions/${session}/messages`, { text: `${n}` })
      assert.equal(sent.status, 200)
      assert.equal(sent.body['seq'], n)
    }
  }
  await send(1, 5)
  const words = ['sessions', 'tail', session, '--after', '2', '--json']
  const tail = runCli(t, words, { FLEETLINE_URL: `http://127.0.0.1:${front.port()}` })
  const told = () => tail.output().trim().split('\n').filter(Boolean)
  const until = (count: number) =>
    eventually(() => assert.ok(told().length >= count), { what: `${count} lines`, details: tail.output })
  await until(3)
  live = second
  first.program.kill('SIGKILL')
  await send(6, 10)
  await until(8)

  tail.kill('SIGINT')
  await eventually(() => assert.ok(tail.hasEnded()), { what: 'the tail to end' })
  assert.deepEqual(await tail.ended, { code: 0, signal: null })
  const items = told().map((line) => JSON.parse(line) as Item)
  assert.deepEqual(
    items.map(({ seq, parts }) => [seq, parts[0]!['text']]),
    [3, 4, 5, 6, 7, 8, 9, 10].map((n) => [n, `${n}`]),
  )
})
