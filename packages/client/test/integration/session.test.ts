// Two devices of one session, on two pods: what they show is what is stored.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import {
  createClient,
  type ClientOptions,
  type FleetlineError,
  type Message,
  type Session,
} from '@fleetline/client'
import { MESSAGE_LIMITS, type Chunk, type Page } from '@fleetline/protocol'
import { Abort } from '../../../server/src/errors.ts'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { manualClock } from '../../../server/test/support/clock.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { fill } from '../../../server/test/support/fill.ts'
import { call } from '../../../server/test/support/http.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { CLOSED, podOn } from '../../../server/test/support/pod.ts'
import { twoPodsOn } from '../../../server/test/support/two-pods.ts'
import { cuttableFront } from '../support/cuttable-front.ts'

/** An agent that says nothing. */
async function* silence(): AsyncGenerator<Chunk> {
  yield { type: 'finish' }
}

const seqsOf = (messages: readonly Message[]) => messages.map(({ seq }) => seq)
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

type Answer = Parameters<typeof twoPodsOn>[1]

const textOf = ({ parts }: Message) => parts.map(({ text }) => text).join('')
const told = ({ get }: Session) =>
  get().messages.map((message) => ({ delivery: message.delivery, text: textOf(message) }))

async function devicesOn(t: TestContext, answer: Answer) {
  const { session, url, pods, at } = await twoPodsOn(t, answer)
  const device = (options: ClientOptions, id: string = session) => {
    const client = createClient(options)
    atEnd(t, () => client.close())
    return client.session(id)
  }
  const until = (devices: readonly Session[], what: string, is: (device: Session) => unknown) =>
    eventually(() => assert.ok(devices.every(is)), {
      what,
      details: () => JSON.stringify(devices.map(({ get }) => get())),
    })
  return {
    session,
    url,
    pods,
    here: device({ url: pods.here }),
    there: device({ url: pods.there, fetch: (...request) => fetch(...request) }), // over an event stream
    device: (options: ClientOptions, id?: string) => device({ url: pods.here, ...options }, id),
    until,
    erase: (id: string) => call('DELETE', `${at('there')}/messages/${id}`),
    make: (body: object) => call('POST', `${pods.here}/v1/sessions`, body),
    stored: async () => ((await call('GET', `${at('here')}/messages`)).body as unknown as Page).items,
  }
}

test('a device goes on behind its last event when its token ends or is revoked: nothing is missing, nothing is shown twice', async (t) => {
  const url = await databaseFor(t)
  const { pod, gateway } = await podOn(t, url, CLOSED)
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  await call('POST', `${gateway}/v1/sessions`, { alias: 'talk', members: ['ada'] }, key)
  const minted: string[] = []
  const token = async () => {
    const wanted = { user: 'ada', seconds: minted.length === 0 ? 600 : 3 }
    const { body } = await call('POST', `${gateway}/v1/tokens`, wanted, key)
    minted.push(String(body['token']))
    return minted.at(-1)!
  }
  const client = createClient({ url: gateway, token })
  atEnd(t, () => client.close())
  const session = client.session('talk')
  await session.ready
  await call('POST', `${gateway}/v1/tokens/revoke`, { user: 'ada' }, key)
  const texts: string[] = []
  const seen = () => session.get().messages.map((message) => [message.author?.id, textOf(message)])
  await eventually(
    async () => {
      await session.send(`${texts.push(`${texts.length}`) - 1}`).sent
      assert.ok(minted.length >= 4, `${minted.length} tokens`)
    },
    { what: 'three tokens after the one that was revoked' },
  )
  const all = texts.map((text) => ['ada', text])
  await eventually(() => assert.deepEqual(seen(), all), { what: 'every message, once' })

  await call('DELETE', `${gateway}/v1/sessions/talk/members/ada`, undefined, key)
  await eventually(() => assert.equal(session.get().refusal?.code, 'not_found'), { what: 'the end' })
})

test('both devices show a reply while it arrives, and then what is stored, in the same objects until it changes', async (t) => {
  const [said, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const { here, there, until, stored } = await devicesOn(t, async function* () {
    yield { type: 'reasoning-start', id: 'r' }
    yield { type: 'reasoning-delta', id: 'r', delta: 'hm' }
    yield { type: 'reasoning-end', id: 'r' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'Hello' }
    await said.promise
    yield { type: 'text-delta', id: '1', delta: ' there' }
    yield { type: 'text-end', id: '1' }
    await end.promise
    yield { type: 'finish' }
  })
  const changes: string[] = []
  const leave = there.subscribe(() => changes.push(there.get().status))
  const { id, sent } = there.send('hi')
  assert.deepEqual(told(there), [{ delivery: 'pending', text: 'hi' }])
  const { seq, turn } = await sent
  assert.equal(seq, 1)
  await until([here, there], 'the first words', (device) => told(device).at(-1)?.text === 'hmHello')
  assert.deepEqual(told(here), [
    { delivery: 'sent', text: 'hi' },
    { delivery: 'open', text: 'hmHello' },
  ])
  assert.equal(here.get().turn?.id, turn, 'sent names the turn that replies')
  const [asked, open] = here.get().messages
  assert.equal(asked!.id, id)
  assert.equal(here.get(), here.get(), 'the same object until something changes')
  said.resolve()
  await until([here, there], 'the rest', (device) => told(device).at(-1)?.text === 'hmHello there')
  assert.equal(here.get().messages[0], asked, 'a message that did not change is the same object')
  end.resolve()
  await until([here, there], 'the end', (device) => device.get().turn?.state === 'done')
  const items = await stored()
  for (const { get } of [here, there]) {
    const { messages, status, head } = get()
    assert.deepEqual(
      messages,
      items.map((item) => ({ ...item, delivery: 'sent' })),
    )
    assert.equal(status, 'idle')
    assert.equal(head, 2)
    assert.equal(messages[1]!.id, open!.id)
  }
  leave()
  const order = changes.filter((status, index) => status !== changes[index - 1])
  assert.deepEqual(order.slice(-2), ['streaming', 'idle'], JSON.stringify(order))
})

test('a stop from a device that has just joined keeps the words so far on both, and without a live turn it stops nothing', async (t) => {
  const { here, there, device, until } = await devicesOn(t, async function* ({ signal }) {
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'so far' }
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  assert.deepEqual(await there.stop(), { stopped: false, seq: null })
  const cut = device({ fetch: () => Promise.reject(new TypeError('no network')) })
  await assert.rejects(cut.stop(), { code: 'unavailable' }, 'a turn that starts later would be stopped, too')
  await here.send('talk').sent
  await until([here, there], 'the words', (device) => told(device).at(-1)?.text === 'so far')
  const late = device({})
  await late.ready
  assert.deepEqual(await late.stop(), { stopped: true, seq: 2 })
  await until([here, there], 'the end', (device) => device.get().turn?.halted === true)
  for (const device of [here, there])
    assert.deepEqual(told(device), [
      { delivery: 'sent', text: 'talk' },
      { delivery: 'sent', text: 'so far' },
    ])
  assert.equal(here.get().messages[1]!.status, 'stopped')
  assert.equal(here.get().status, 'idle')
})

test('E10: a reply that is written anew and an edited message change what both devices show; of two edits at once, one is refused', async (t) => {
  let calls = 0
  const { here, there, device, until, stored } = await devicesOn(t, async function* ({ signal }) {
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: `reply ${(calls += 1)}` }
    if (calls === 5) await once(signal, 'abort')
    yield { type: 'finish' }
  })
  const shows = (...texts: string[]) =>
    until([here, there], texts.join(), ({ get }) => {
      const { messages, status } = get()
      return status === 'idle' && texts.join() === messages.map(textOf).join()
    })
  await here.send({ id: 'typo', parts: [{ type: 'text', text: 'Rom?' }] }).sent
  await shows('Rom?', 'reply 1')
  await there.regenerate()
  await shows('Rom?', 'reply 2')
  const edits = await Promise.allSettled([here.edit('typo', 'Rome?'), there.edit('typo', 'Roma?')])
  const [lost] = edits.flatMap((edit) => (edit.status === 'rejected' ? [edit.reason as FleetlineError] : []))
  assert.deepEqual([edits.filter(({ status }) => status === 'fulfilled').length, lost!.code], [1, 'stale'])
  await shows(edits[0].status === 'fulfilled' ? 'Rome?' : 'Roma?', 'reply 3')
  await here.regenerate(here.get().messages[0]!.id)
  await shows(edits[0].status === 'fulfilled' ? 'Rome?' : 'Roma?', 'reply 4')
  assert.equal((await stored()).length, 6, 'the log keeps what was replaced')
  await here.regenerate()
  await until([here], 'the fifth reply', ({ get }) => get().status === 'streaming')
  await here.stop()
  const late = device({})
  await late.ready
  await late.regenerate()
  await until([late, here], 'the sixth reply', ({ get }) => get().messages.map(textOf).at(-1) === 'reply 6')
})

test('a refused message says why and does not hold up later ones, and it can be retried or discarded', async (t) => {
  const { here, until, stored } = await devicesOn(t, silence)
  const large = here.send('x'.repeat(MESSAGE_LIMITS.bytes))
  const small = here.send({
    id: 'small',
    parts: [{ type: 'text', text: 'small' }],
    metadata: { tone: 'dry' },
  })
  await assert.rejects(large.sent, { name: 'FleetlineError', code: 'too_large' })
  assert.equal(small.id, 'small')
  const { turn: _, ...smallSent } = await small.sent
  assert.deepEqual(smallSent, { seq: 1 })
  await until([here], 'its item', ({ get }) => get().head === 1)
  assert.deepEqual(
    here.get().messages.map(({ id, delivery, refusal }) => ({ id, delivery, code: refusal?.code })),
    [
      { id: 'small', delivery: 'sent', code: undefined },
      { id: large.id, delivery: 'failed', code: 'too_large' },
    ],
  )
  here.retry(large.id)
  assert.equal(here.get().messages[1]!.delivery, 'pending')
  assert.equal('refusal' in here.get().messages[1]!, false)
  await until([here], 'the second refusal', ({ get }) => get().messages[1]!.delivery === 'failed')
  here.discard(large.id)
  here.discard('small')
  assert.deepEqual(
    here.get().messages.map(({ id, metadata }) => ({ id, metadata })),
    [{ id: 'small', metadata: { tone: 'dry' } }],
  )
  assert.deepEqual(
    (await stored()).map(({ id }) => id),
    ['small'],
  )
})

/** Loses the first two answers to a message. The device opens no stream, so it never sees its own message. */
function losingAnswers(change: (body: string, nth: number) => string): typeof fetch {
  let posts = 0
  return async (input, init) => {
    if (init?.method !== 'POST') throw new TypeError('no way')
    posts += 1
    const answer = await fetch(input, { ...init, body: change(init.body as string, posts) })
    if (posts === 3) return answer
    await answer.arrayBuffer()
    throw new TypeError('terminated')
  }
}

for (const [name, change, count] of [
  ['a message whose answers were lost is stored once', (body: string) => body, 1],
  [
    'mutant, sent again under another id: it is stored more than once',
    (body: string, nth: number) => (nth === 3 ? body : body.replace(/"id":"([^"]+)"/, `"id":"$1-${nth}"`)),
    3,
  ],
] as const)
  test(`L4: ${name}`, async (t) => {
    const { device, stored } = await devicesOn(t, silence)
    const lonely = device({ fetch: losingAnswers(change), random: () => 0.01 })
    const { turn: _, ...sent } = await lonely.send('once').sent
    assert.deepEqual(sent, { seq: count })
    assert.equal((await stored()).length, count)
  })

test('ready resolves when a device shows the stored messages, and rejects for a session that does not exist', async (t) => {
  const { here, device } = await devicesOn(t, silence)
  for (const text of ['one', 'two']) await here.send(text).sent
  const late = device({})
  await late.ready
  assert.deepEqual(
    told(late).filter(({ text }) => text),
    [
      { delivery: 'sent', text: 'one' },
      { delivery: 'sent', text: 'two' },
    ],
  )
  const nowhere = device({}, 'nowhere')
  await assert.rejects(nowhere.ready, { name: 'FleetlineError', code: 'not_found' })
})

test('ready rejects for a session that was refused, even if it exists by now', async (t) => {
  const { device, until, make } = await devicesOn(t, silence)
  const early = device({}, 'early')
  await until([early], 'the refusal', ({ get }) => get().connection === 'refused')
  await make({ alias: 'early' })
  await assert.rejects(early.ready, { name: 'FleetlineError', code: 'not_found' })
})

test('a session that does not exist is refused, and so is a message to it', async (t) => {
  const { device, until } = await devicesOn(t, silence)
  const nowhere = device({}, 'nowhere')
  await until([nowhere], 'the refusal', ({ get }) => get().connection === 'refused')
  assert.equal(nowhere.get().refusal!.code, 'not_found')
  await assert.rejects(nowhere.send('hi').sent, { code: 'not_found' })
})

test('a closed session rejects waiting and new messages, and has no timer left', async (t) => {
  const clock = manualClock()
  const { device, until } = await devicesOn(t, silence)
  const here = device({ clock })
  await until([here], 'the stream', ({ get }) => get().connection === 'live')
  const { sent } = here.send('too late')
  here.close()
  await assert.rejects(sent, { code: 'unavailable' })
  assert.throws(() => here.send('later'), { code: 'unavailable' })
  assert.equal(here.get().connection, 'offline')
  await clock.advance(30_000) // the client has nothing to follow any more
  await eventually(() => assert.equal(clock.sleepers, 0), { what: 'no timer' })
})

test('later changes by the caller do not reach a sent message, and one that is no JSON or has a used id is rejected', async (t) => {
  const { here, until, stored } = await devicesOn(t, silence)
  const parts = [{ type: 'text', text: 'as it was' }]
  const { sent } = here.send({ id: 'kept', parts })
  parts[0]!.text = 'changed'
  assert.throws(() => here.send({ id: 'kept', parts }), { code: 'conflict' })
  assert.throws(() => here.send({ parts: [{ type: 'data-n', data: 1n }] }), { code: 'invalid' })
  await sent
  await until([here], 'its item', ({ get }) => get().head === 1)
  assert.deepEqual(await here.send({ id: 'kept', parts }).sent, { seq: 1 })
  assert.deepEqual(
    (await stored()).map(({ parts }) => parts),
    [[{ type: 'text', text: 'as it was' }]],
  )
})

test('a device that joins late knows how the last turn ended', async (t) => {
  const { here, device, until } = await devicesOn(t, () => {
    throw new Abort('invalid', 'It cannot.')
  })
  await here.send('hi').sent
  await until([here], 'the failure', ({ get }) => get().status === 'failed')
  const late = device({})
  await until([late], 'the failure', ({ get }) => get().status === 'failed')
  assert.deepEqual(late.get().turn, here.get().turn)
})

test('a device that is more than 500 messages behind begins again with the last ones, and loads the older ones', async (t) => {
  const { pods, session, url, device, until } = await devicesOn(t, silence)
  const front = await cuttableFront(t, () => Number(new URL(pods.here).port))
  const options = { url: front.gateway, random: () => 0.01 }
  const devices = [device(options), device({ ...options, fetch: (...request) => fetch(...request) })]
  const { id, sent } = devices[0]!.send('the first')
  await sent
  await until(devices, 'the reply', ({ get }) => get().turn?.state === 'done')
  front.cut()
  await fill(url, { count: 600, length: 1, session })
  await until(devices, 'the last messages', ({ get }) => get().head === 601 && get().hasOlder)
  for (const { get, loadOlder } of devices) {
    assert.deepEqual(seqsOf(get().messages), numbers(552, 601))
    await loadOlder(100)
    assert.deepEqual(seqsOf(get().messages), numbers(452, 601))
    await Promise.all([loadOlder(), loadOlder()])
    assert.deepEqual(seqsOf(get().messages), numbers(402, 601), 'one page, not two')
    while (get().hasOlder) await loadOlder(100)
    assert.deepEqual(seqsOf(get().messages), numbers(1, 601))
    assert.equal(get().messages[0]!.id, id)
  }
})

test('S35: a device renames its session; what is erased vanishes on every device', async (t) => {
  const { here, there, until, erase } = await devicesOn(t, silence)
  await here.ready
  assert.deepEqual(
    [(await here.change({ title: 'Rome' })).title, (await here.change({ archived: true })).archived],
    ['Rome', true],
  )
  await assert.rejects(here.change({ title: '' }), { code: 'invalid' })
  const { id } = here.send('my card is 4000')
  await until([here, there], 'the message', ({ get }) => get().messages.some(({ seq }) => seq === 1))
  await erase(id)
  await until([here, there], 'the erasure', ({ get }) => get().messages[0]?.erased)
  assert.ok(!JSON.stringify([here.get(), there.get()]).includes('4000'))
})
