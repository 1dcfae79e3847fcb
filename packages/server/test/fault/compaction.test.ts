// A pod that is killed while it compacts a conversation. Beats are made old by hand, so no test waits for a ttl.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Ack, Page, Session } from '@fleetline/protocol'
import { valueOf } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { bury, podRows } from '../support/fleet.ts'
import { call, makeSession } from '../support/http.ts'
import { APP, startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

const PAGE = 'x'.repeat(1_500)

test('E3 E7: if the pod of a compaction is killed before the commit, no summary is stored; another pod summarises the same messages', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <Row extends object>(text: string) =>
    valueOf(await database.transaction((query) => query<Row>(text)), 'not run')
  const podNamed = async (name: string, env = {}) => {
    const pod = await startPod(t, url, { FLEETLINE_POD_NAME: name, ...env }, APP)
    const { pod: id } = (await podRows(database)).find((row) => row.name === name)!
    return { ...pod, id }
  }
  const first = await podNamed('first', { FLEETLINE_CRASH: 'compact.ending:hold' })
  const { session } = await makeSession(first.gateway, { agent: 'writer' })
  const at = (gateway: string) => `${gateway}/v1/sessions/${session}`
  const send = async (gateway: string, text: string) =>
    (await call('POST', `${at(gateway)}/messages`, { text })).body as unknown as Ack
  const stored = () => run(`select seq, md5(m::text) from fleetline.messages m where seq <= 2 order by seq`)
  const summaries = () =>
    run<{ upto: number; text: string }>('select upto, text from fleetline.summaries order by upto')

  await send(first.gateway, PAGE)
  await eventually(() => assert.match(first.program.output(), /held at compact.ending/), { what: 'the hold' })
  const before = await stored()
  const second = await podNamed('second')
  const state = async () => ((await call('GET', at(second.gateway))).body as unknown as Session).state
  const meanwhile = await send(second.gateway, 'meanwhile')
  assert.deepEqual([meanwhile.seq, meanwhile.turn, meanwhile.epoch], [3, undefined, 2])
  first.program.kill('SIGKILL')
  assert.deepEqual([await state(), await summaries()], ['compacting', []])

  await bury(database, first.id)
  const { output: details } = second.program
  await eventually(async () => assert.equal(await state(), 'idle'), { what: 'its end', details })
  assert.deepEqual(await summaries(), [{ upto: 2, text: '2 messages, up to 2' }])
  assert.deepEqual(await stored(), before)
  const { items } = (await call('GET', `${at(second.gateway)}/messages`)).body as unknown as Page
  assert.deepEqual(
    items.map(({ seq, role, answers }) => [seq, role, answers]),
    [
      [1, 'user', undefined],
      [2, 'assistant', 1],
      [3, 'user', undefined],
      [4, 'assistant', 3],
    ],
  )
})
