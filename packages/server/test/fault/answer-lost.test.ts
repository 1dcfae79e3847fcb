// L1 L4 E10: a pod dies between its commit and its answer. A repeat through another pod is answered with what was committed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod, type RunningPod } from '../support/pods.ts'
import { AGENT } from '../support/route-fields.ts'

/** Sends a request whose pod is killed when it has committed. */
async function unanswered({ program }: RunningPod, request: () => ReturnType<typeof call>): Promise<void> {
  const answer = request()
  answer.catch(() => undefined) // it is awaited below
  await eventually(() => assert.match(program.output(), /held at append.committed/), {
    what: 'the pod to have committed',
  })
  program.kill('SIGKILL')
  await assert.rejects(answer, 'the killed pod has answered')
}

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
  await unanswered(dying, () => send(dying.gateway, 'second'))
  assert.deepEqual(await send(other.gateway, 'second'), {
    status: 200,
    body: { id: 'second', seq: 2, deduped: true },
  })
  assert.deepEqual((await send(other.gateway, 'third')).body, { id: 'third', seq: 3, deduped: false })
  const { body } = await call('GET', `${other.gateway}/v1/sessions/${session}`)
  assert.equal(body['head'], 3)
})

test('E10: an edit and a reply that is written anew, whose pods are killed between commit and answer, start one turn each', async (t) => {
  const url = await databaseFor(t)
  const env = {
    FLEETLINE_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
    FLEETLINE_AGENT_HOSTS: '127.0.0.1',
  }
  const crash = { ...env, FLEETLINE_CRASH: 'append.committed:1:hold' }
  const [first, second, other] = await Promise.all([
    startPod(t, url, crash),
    startPod(t, url, crash),
    startPod(t, url, env),
  ])
  await call('POST', `${other.gateway}/v1/agents`, AGENT) // nobody listens there, so its turns wait for their next attempts
  const { session } = await makeSession(other.gateway, { agent: AGENT.name })
  const at = `/v1/sessions/${session}`
  await call('POST', `${other.gateway}${at}/messages`, {
    message: { id: 'typo', parts: [{ type: 'text', text: 'helo' }] },
  })
  const edit = (gateway: string) =>
    call('PUT', `${gateway}${at}/messages/typo`, { epoch: 1, parts: [{ type: 'text', text: 'hello' }] })
  await unanswered(first, () => edit(first.gateway))
  const edited = await edit(other.gateway)
  assert.deepEqual(
    [edited.status, edited.body['seq'], edited.body['epoch'], edited.body['deduped']],
    [200, 2, 3, true],
  )
  const regenerate = (gateway: string) => call('POST', `${gateway}${at}/regenerate`, { epoch: 3 })
  await unanswered(second, () => regenerate(second.gateway))
  const { status, body } = await regenerate(other.gateway)
  assert.deepEqual([status, body['epoch'], body['deduped']], [200, 5, true])
  const now = await call('GET', `${other.gateway}${at}`)
  assert.deepEqual([now.body['head'], now.body['epoch'], now.body['turn']], [2, 5, body['turn']])
})
