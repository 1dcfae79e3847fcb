// L1 L4: a pod dies between its commit and its answer; who sends again, through another pod, is told what was committed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'

test('L1 L4: kill -9 between commit and answer, sent again through the other pod: one row, one seq', async (t) => {
  const url = await databaseFor(t)
  const [dying, other] = await Promise.all([
    startPod(t, url, { FLEETLINE_CRASH: 'append.committed:2:hold' }),
    startPod(t, url),
  ])
  const { session } = await makeSession(other.gateway)
  const send = (gateway: string, id: string) =>
    call('POST', `${gateway}/v1/sessions/${session}/messages`, {
      message: { id, parts: [{ type: 'text', text: 'hello' }] },
    })
  assert.deepEqual(await send(dying.gateway, 'first'), {
    status: 200,
    body: { id: 'first', seq: 1, deduped: false },
  })
  const unanswered = send(dying.gateway, 'second')
  unanswered.catch(() => undefined) // it is looked at below
  await eventually(() => assert.match(dying.program.output(), /held at append.committed/), {
    what: 'the pod to have committed',
  })
  dying.program.kill('SIGKILL')
  await assert.rejects(unanswered, 'nobody heard of it')
  assert.deepEqual(await send(other.gateway, 'second'), {
    status: 200,
    body: { id: 'second', seq: 2, deduped: true },
  })
  assert.deepEqual((await send(other.gateway, 'third')).body, { id: 'third', seq: 3, deduped: false })
  const { body } = await call('GET', `${other.gateway}/v1/sessions/${session}`)
  assert.equal(body['head'], 3)
})
