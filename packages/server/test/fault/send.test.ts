// A visitor sends a message from the command line. The visitor stops the reply, or the pod that runs the turn is killed during the
// reply. Beats are made old by hand, so no test waits for a ttl.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Page } from '@fleetline/protocol'
import { createFront } from '../../src/cli/dev/front.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { podRows, bury } from '../support/fleet.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { APP, startPod } from '../support/pods.ts'
import { runCli } from '../support/program.ts'
import { openDatabase } from '../support/store.ts'

test('E8: Ctrl-C stops a reply that runs on another pod, and what was said is kept', async (t) => {
  const url = await databaseFor(t)
  const { gateway: other } = await startPod(t, url, {}, APP)
  const { gateway } = await podOn(t, url) // it has no agents
  await makeSession(other, { alias: 'demo', agent: 'parrot' })
  const visitor = runCli(t, ['sessions', 'send', 'demo', 'these words until:never'], {
    FLEETLINE_URL: gateway,
  })
  const details = { details: visitor.output }
  await eventually(() => assert.equal(visitor.printed(), 'these words '), { what: 'the words', ...details })
  visitor.kill('SIGINT')
  await eventually(() => assert.ok(visitor.hasEnded()), { what: 'its end', ...details })
  assert.deepEqual(await visitor.ended, { code: 130, signal: null }, visitor.output())
  assert.match(visitor.output(), /Stopped\. The words so far are stored at seq 2\./)
  assert.equal(visitor.printed(), 'these words \n')
  const { items } = (await call('GET', `${gateway}/v1/sessions/demo/messages`)).body as unknown as Page
  assert.equal(items.length, 2)
  assert.equal(items[1]!.status, 'stopped')
  assert.equal(items[1]!.parts[0]!['text'], 'these words ')
})

test('E5 D4: if the pod that was asked and runs the turn is killed, the reply is still printed whole', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-send-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'open')
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const first = await startPod(t, url, { FLEETLINE_POD_NAME: 'first' }, APP)
  let live = first
  const targets = () => [Number(new URL(live.gateway).port)]
  const front = createFront({ name: 'front', host: '127.0.0.1', port: 0, random: systemRandom(), targets })
  await front.start()
  atEnd(t, () => front.stop())
  await makeSession(first.gateway, { alias: 'demo', agent: 'parrot' })

  const words = ['sessions', 'send', 'demo', `these words until:${file} are said once`]
  const visitor = runCli(t, words, { FLEETLINE_URL: `http://127.0.0.1:${front.port()}` })
  const details = { details: visitor.output }
  await eventually(() => assert.equal(visitor.printed(), 'these words '), { what: 'the words', ...details })
  assert.match(visitor.output(), /turn_\w+ is running on first \(attempt 1\)/)
  const second = await startPod(t, url, { FLEETLINE_POD_NAME: 'second' }, APP)
  const { pod } = (await podRows(database)).find(({ name }) => name === 'first')!
  live = second
  first.program.kill('SIGKILL')
  await bury(database, pod)
  await eventually(() => assert.match(visitor.output(), /is running on second \(attempt 2\)/), {
    what: 'the second attempt',
    ...details,
  })
  writeFileSync(file, '')
  await eventually(() => assert.ok(visitor.hasEnded()), { what: 'the reply to end', ...details })
  assert.deepEqual(await visitor.ended, { code: 0, signal: null }, visitor.output())
  const { items } = (await call('GET', `${second.gateway}/v1/sessions/demo/messages`)).body as unknown as Page
  const replies = items.filter(({ role }) => role === 'assistant').map(({ parts }) => parts[0]!['text'])
  assert.deepEqual(replies, ['these words are said once '])
  assert.equal(visitor.printed(), `${replies[0] as string}\n`)
})
