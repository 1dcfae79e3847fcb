// Sessions in the process of the pod: the same as over HTTP, without it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Metadata } from '@fleetline/protocol'
import { agent, createPod, Rejected } from '../../src/index.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { OF_CLUSTER, podOn } from '../support/pod.ts'
import { saying } from '../support/talk.ts'

test('a program creates a session, sends, follows the reply and reads it', async (t) => {
  const { pod, gateway } = await podOn(
    t,
    await databaseFor(t),
    {},
    { agents: [agent('bot', () => saying('hello'))] },
  )
  const { session } = await pod.sessions.create({ agent: 'bot', alias: 'trip' })
  const ack = await pod.sessions.send('trip', 'good morning', { author: 'ada' })
  assert.equal(ack.seq, 1)
  const leaving = new AbortController()
  for await (const frame of pod.sessions.follow('trip', { after: 0, signal: leaving.signal }))
    if (frame.type === 'turn' && frame.turn.state === 'done') leaving.abort()
  assert.equal((await pod.sessions.turn(ack.turn!))?.state, 'done')
  const { items } = await pod.sessions.read(session, { after: 0 })
  assert.deepEqual(
    items.map(({ role }) => role),
    ['user', 'assistant'],
  )
  const { body } = await call('GET', `${gateway}/v1/sessions/trip/messages?after=0`)
  assert.deepEqual(JSON.parse(JSON.stringify(items)), body['items'])
  assert.deepEqual(await pod.sessions.stop(session, { turn: ack.turn!, epoch: ack.epoch! }), {
    stopped: false,
    seq: null,
  })
})

test('a follower ends when the pod stops', async (t) => {
  const { pod } = await podOn(t, await databaseFor(t))
  const { session } = await pod.sessions.create()
  await pod.sessions.send(session, 'hello')
  const seen: string[] = []
  for await (const { type } of pod.sessions.follow(session, { after: 0 })) {
    seen.push(type)
    void pod.stop()
  }
  assert.deepEqual(seen, ['messages'])
})

test('a message is stored as HTTP would deliver it', async (t) => {
  const { pod } = await podOn(t, await databaseFor(t))
  const { session } = await pod.sessions.create()
  const parts = [{ type: 'text', text: 'hello' }] as const
  const metadata = { at: new Date(0) } as object as Metadata
  await pod.sessions.send(session, { id: 'm', parts, metadata })
  const again = await pod.sessions.send(session, {
    id: 'm',
    parts,
    metadata: { at: '1970-01-01T00:00:00.000Z' },
  })
  assert.equal(again.deduped, true)
  const wrong = { parts, metadata: { n: 1n } as object as Metadata }
  await assert.rejects(pod.sessions.send(session, wrong), { code: 'invalid', status: 400 })
})

test('what does not exist is undefined, and an error has the status of its code', async (t) => {
  const { pod } = await podOn(t, await databaseFor(t))
  assert.equal(await pod.sessions.get('nobody'), undefined)
  assert.equal(await pod.sessions.turn('turn_1'), undefined)
  await assert.rejects(pod.sessions.send('nobody', 'hello'), (error) => {
    assert.ok(error instanceof Rejected)
    assert.equal(error.code, 'not_found')
    assert.equal(error.status, 404)
    return true
  })
  await assert.rejects(pod.sessions.send('nobody', '  '), /body.message: says nothing/)
})

test('a pod takes plain settings, and a wrong or an unknown one is rejected', async (t) => {
  const pod = createPod({
    databaseUrl: await databaseFor(t),
    port: 0,
    operatorPort: 0,
    logLevel: 'error',
    unreadyMs: 0,
    allowInsecure: OF_CLUSTER,
  })
  atEnd(t, () => pod.stop())
  await pod.start()
  const { session } = await pod.sessions.create()
  assert.deepEqual(
    (await pod.sessions.list()).map((one) => one.session),
    [session],
  )
  assert.throws(() => createPod({ port: 99_999 }), /port must be a port from 0 to 65535/)
  assert.throws(() => createPod({ prot: 1 } as object), /prot is not a setting; did you mean port\?/)
})
