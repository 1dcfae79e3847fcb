// S11: calls to agents are signed by Standard Webhooks, and their secrets are sealed. The tests check published vectors and
// change every byte that could be changed on the way.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SignatureError, verify } from '../../src/agent-kit.ts'
import { seal, unseal } from '../../src/agent/seal.ts'
import { isSecret, isSignedBy, secretOf, sign } from '../../src/agent/signature.ts'
import { systemRandom } from '../../src/lib/random.ts'

const encoder = new TextEncoder()
// The first is published by the standard, the second by our documentation.
const VECTORS = [
  {
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: '1614265330',
    text: '{"test": 2432232314}',
    signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
  {
    secret: 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDE=',
    id: 'turn_example',
    timestamp: '1763158800',
    text: '{"id":"ses_1","messages":[]}',
    signature: 'v1,9Ce0VcWOaqQlViS+amtKGWiBqtFh5TNs9AMj/Br5SNQ=',
  },
] as const
const [, OURS] = VECTORS
const NOW = Number(OURS.timestamp) * 1000

type Sent = {
  readonly id: string
  readonly timestamp: string
  readonly body: Uint8Array
  readonly signature: string
}
const SENT: Sent = { ...OURS, body: encoder.encode(OURS.text) }

function requestOf({ id, timestamp, body, signature }: Sent): Request {
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
  return new Request('http://agent.example/api/chat', { method: 'POST', headers, body: Buffer.from(body) })
}

const refused = (sent: Sent, secret: string | string[] = OURS.secret, now = NOW) =>
  assert.rejects(verify(requestOf(sent), secret, { now }), (error) => {
    assert.ok(error instanceof SignatureError, String(error))
    assert.equal(error.status, 401)
    return true
  })

test('S11: the published vectors are signed as published, and verified', async () => {
  for (const { secret, id, timestamp, text, signature } of VECTORS) {
    const signed = { id, timestamp, body: encoder.encode(text) }
    assert.equal(await sign(secret, signed), signature)
    assert.ok(await isSignedBy([secret], signature, signed))
  }
  assert.deepEqual(await verify(requestOf(SENT), OURS.secret, { now: NOW }), { id: 'ses_1', messages: [] })
})

test('S11: a request is refused if any byte of its body, id, time or signature was changed', async () => {
  for (let at = 0; at < SENT.body.length; at += 1) {
    const body = SENT.body.with(at, SENT.body[at]! ^ 1)
    await refused({ ...SENT, body })
  }
  for (const field of ['id', 'timestamp', 'signature'] as const)
    for (let at = 0; at < SENT[field].length; at += 1) {
      const was = SENT[field]
      const other = was[at] === '1' ? '2' : '1'
      await refused({ ...SENT, [field]: was.slice(0, at) + other + was.slice(at + 1) })
    }
  await refused({ ...SENT, body: SENT.body.subarray(1) })
  await refused({ ...SENT, id: '' })
  await refused({ ...SENT, signature: '' })
  // Characters cannot move from one field to the next.
  await refused({ ...SENT, id: 'turn', timestamp: 'example.1763158800' })
})

test('S11: a request may be five minutes old or early, and not a second more', async () => {
  for (const offS of [-300, 300])
    assert.ok(await verify(requestOf(SENT), OURS.secret, { now: NOW + offS * 1000 }), `${offS} s`)
  for (const offS of [-301, 301]) await refused(SENT, OURS.secret, NOW + offS * 1000)
})

test('S11: one of several secrets is enough, and one of several signatures', async () => {
  const other = secretOf(systemRandom().bytes(24))
  await refused(SENT, other)
  assert.ok(await verify(requestOf(SENT), [other, OURS.secret], { now: NOW }))
  const several = `v0,x v1a,${'A'.repeat(86)}== v1,short ${await sign(other, SENT)} ${OURS.signature}`
  assert.ok(await verify(requestOf({ ...SENT, signature: several }), OURS.secret, { now: NOW }))
  await refused(SENT, [])
})

test('a secret has 24 to 64 bytes, and anything else is rejected before a signature is compared', async () => {
  for (const length of [24, 32, 64]) assert.ok(isSecret(secretOf(new Uint8Array(length))), `${length} bytes`)
  for (const length of [0, 23, 65]) assert.ok(!isSecret(secretOf(new Uint8Array(length))), `${length} bytes`)
  for (const text of ['', 'whsec_', OURS.secret.slice(6), `${OURS.secret} `, 'whsec_%%%%'])
    assert.ok(!isSecret(text), text)
  await assert.rejects(verify(requestOf(SENT), 'hunter2', { now: NOW }), TypeError)
})

test('a body that is larger than any conversation is not read to its end', async () => {
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024)),
  })
  const { headers, url } = requestOf(SENT)
  const request = new Request(url, { method: 'POST', headers, body: endless, duplex: 'half' })
  await assert.rejects(verify(request, OURS.secret, { now: NOW }), SignatureError)
})

test('a sealed secret opens only with its key, for its owner, and unchanged', () => {
  const random = systemRandom()
  const [key, owner] = [random.bytes(32), 'agent 1 bot']
  const sealed = seal('whsec_x', { key, owner }, random)
  assert.equal(unseal(sealed, { key, owner }), 'whsec_x')
  assert.ok(!sealed.includes('whsec'))
  assert.notDeepEqual(seal('whsec_x', { key, owner }, random), sealed)
  assert.equal(unseal(sealed, { key: random.bytes(32), owner }), undefined)
  assert.equal(unseal(sealed, { key, owner: 'agent 2 bot' }), undefined)
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = Buffer.from(sealed)
    changed[at]! ^= 1
    assert.equal(unseal(changed, { key, owner }), undefined, `byte ${at}`)
  }
  assert.equal(unseal(Buffer.alloc(0), { key, owner }), undefined)
})
