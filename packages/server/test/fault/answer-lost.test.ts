// L1 L4: a pod dies between its commit and its answer. A repeat through another pod is answered with what was committed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'

test('L1 L4: a message whose pod is killed between commit and answer keeps its one seq when it is sent again', async (t) => {
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
  unanswered.catch(() => undefined) // it is awaited below
  await eventually(() => assert.match(dying.program.output(), /held at append.committed/), {
    what: 'the pod to have committed',
  })
  dying.program.kill('SIGKILL')
  await assert.rejects(unanswered, 'the killed pod has answered')
  assert.deepEqual(await send(other.gateway, 'second'), {
    status: 200,
    body: { id: 'second', seq: 2, deduped: true },
  })
  assert.deepEqual((await send(other.gateway, 'third')).body, { id: 'third', seq: 3, deduped: false })
  const { body } = await call('GET', `${other.gateway}/v1/sessions/${session}`)
  assert.equal(body['head'], 3)
})
