// A pod that is killed right after it has committed an erasure. Beats are made old by hand, so no test waits for a ttl.
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Ack, Erasure, Turn } from '@fleetline/protocol'
import { valueOf } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { bury, podRows } from '../support/fleet.ts'
import { call, makeSession } from '../support/http.ts'
import { APP, startPod } from '../support/pods.ts'
import { dumpOf } from '../support/search.ts'
import { openDatabase } from '../support/store.ts'
import { untilWritten } from '../support/written.ts'

test('S35 E8: if the pod dies after it has committed an erasure, another one stops the turn and removes what the session said', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <Row extends object>(text: string) =>
    valueOf(await database.transaction((query) => query<Row>(text)), 'not run')
  const first = await startPod(t, url, {
    FLEETLINE_POD_NAME: 'first',
    FLEETLINE_CRASH: 'erase.committed:kill',
  })
  const second = await startPod(t, url, { FLEETLINE_POD_NAME: 'second' }, APP)
  const canary = `canary-${randomUUID()}`
  const { session } = await makeSession(first.gateway, { agent: 'parrot', title: canary, members: ['ada'] })
  const never = `until:${join(tmpdir(), canary)}`
  const sent = await call('POST', `${first.gateway}/v1/sessions/${session}/messages`, {
    text: `begun ${never}`,
    author: 'ada',
  })
  const { turn } = sent.body as unknown as Ack
  await untilWritten(t, url, 'begun') // a turn that has not read its session yet fails, because that is gone
  const turnNow = async () =>
    (await call('GET', `${second.gateway}/v1/turns/${turn}`)).body as unknown as Turn
  await eventually(async () => assert.equal((await turnNow()).state, 'running'), { what: 'the turn to run' })

  await assert.rejects(call('DELETE', `${first.gateway}/v1/sessions/${session}`))
  const answer = await call('GET', `${second.gateway}/v1/sessions/${session}`)
  assert.equal(answer.status, 410)
  const { pod: dead } = (await podRows(database)).find(({ name }) => name === 'first')!
  await bury(database, dead)
  await eventually(
    async () => {
      const found = await turnNow()
      assert.deepEqual([found.state, found.error?.code, found.halted], ['stopped', 'gone', true])
    },
    { what: 'the stop of the turn', details: second.program.output },
  )
  const again = await call('DELETE', `${second.gateway}/v1/sessions/${session}`)
  const { erasure } = again.body as unknown as Erasure
  await eventually(
    async () => {
      await run(`update fleetline.turns set ended_at = now() - interval '1 minute'`) // the last chunks are long written
      const { body } = await call('GET', `${second.gateway}/v1/erasures/${erasure}`)
      assert.equal(body['state'], 'done', JSON.stringify(body))
    },
    { what: 'the end of the erasure', details: second.program.output },
  )
  assert.equal((await run('select from fleetline.erasures')).length, 1, 'the repeat got the same receipt')
  assert.ok(!dumpOf(url).includes(canary))
})
