// Two devices of one session, on two pods: what they show is what is stored.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { createClient, type ClientOptions, type Message, type Session } from '@fleetline/client'
import { MESSAGE_LIMITS, type Chunk, type Page } from '@fleetline/protocol'
import { Abort } from '../../../server/src/errors.ts'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { manualClock } from '../../../server/test/support/clock.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { call } from '../../../server/test/support/http.ts'
import { twoPodsOn } from '../../../server/test/support/two-pods.ts'

/** It has nothing to say. */
async function* silence(): AsyncGenerator<Chunk> {
  yield { type: 'finish' }
}

type Answer = Parameters<typeof twoPodsOn>[1]

const textOf = ({ parts }: Message) => parts.map(({ text }) => text).join('')
const told = ({ get }: Session) => get().messages.map((message) => [message.delivery, textOf(message)])

async function devicesOn(t: TestContext, answer: Answer) {
  const { session, pods, at } = await twoPodsOn(t, answer)
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
    here: device({ url: pods.here }),
    there: device({ url: pods.there }),
    device: (options: ClientOptions, id?: string) => device({ url: pods.here, ...options }, id),
    until,
    stored: async () => ((await call('GET', `${at('here')}/messages`)).body as unknown as Page).items,
  }
}

test('a reply is shown on both devices while it is said; then both have what is stored, in the same objects until it changes', async (t) => {
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
  assert.deepEqual(told(there), [['pending', 'hi']])
  assert.deepEqual(await sent, { seq: 1 })
  await until([here, there], 'the first words', (device) => told(device).at(-1)?.[1] === 'hmHello')
  assert.deepEqual(told(here), [
    ['sent', 'hi'],
    ['open', 'hmHello'],
  ])
  const [asked, open] = here.get().messages
  assert.equal(asked!.id, id)
  assert.equal(here.get(), here.get())
  said.resolve()
  await until([here, there], 'the rest', (device) => told(device).at(-1)?.[1] === 'hmHello there')
  assert.equal(here.get().messages[0], asked)
  end.resolve()
  await until([here, there], 'the end', (device) => device.get().turn?.state === 'done')
  const items = await stored()
  for (const { get } of [here, there]) {
    const { messages, status, head } = get()
    assert.deepEqual(
      messages,
      items.map((item) => ({ ...item, delivery: 'sent' })),
    )
    assert.deepEqual([status, head, messages[1]!.id], ['idle', 2, open!.id])
  }
  leave()
  const order = changes.filter((status, index) => status !== changes[index - 1])
  assert.deepEqual(order.slice(-2), ['streaming', 'idle'], JSON.stringify(order))
})

test('stopped from the other device, the words so far stand on both; a stop without a live turn is none', async (t) => {
  const { here, there, until } = await devicesOn(t, async function* ({ signal }) {
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'so far' }
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  assert.deepEqual(await there.stop(), { stopped: false, seq: null })
  await here.send('talk').sent
  await until([here, there], 'the words', (device) => told(device).at(-1)?.[1] === 'so far')
  assert.deepEqual(await there.stop(), { stopped: true, seq: 2 })
  await until([here, there], 'the end', (device) => device.get().turn?.halted === true)
  for (const device of [here, there])
    assert.deepEqual(told(device), [
      ['sent', 'talk'],
      ['sent', 'so far'],
    ])
  assert.equal(here.get().messages[1]!.status, 'stopped')
  assert.equal(here.get().status, 'idle')
})

test('refused, a message stays and says why, those behind it go; retried it keeps its id, discarded it is gone', async (t) => {
  const { here, until, stored } = await devicesOn(t, silence)
  const large = here.send('x'.repeat(MESSAGE_LIMITS.bytes))
  const small = here.send({
    id: 'small',
    parts: [{ type: 'text', text: 'small' }],
    metadata: { tone: 'dry' },
  })
  await assert.rejects(large.sent, { name: 'FleetlineError', code: 'too_large' })
  assert.deepEqual([small.id, await small.sent], ['small', { seq: 1 }])
  await until([here], 'its item', ({ get }) => get().head === 1)
  const rows = here.get().messages.map(({ id, delivery, refusal }) => [id, delivery, refusal?.code])
  assert.deepEqual(rows, [
    ['small', 'sent', undefined],
    [large.id, 'failed', 'too_large'],
  ])
  here.retry(large.id)
  assert.deepEqual(here.get().messages[1]!.delivery, 'pending')
  assert.equal('refusal' in here.get().messages[1]!, false)
  await until([here], 'the second refusal', ({ get }) => get().messages[1]!.delivery === 'failed')
  here.discard(large.id)
  here.discard('small')
  assert.deepEqual(
    here.get().messages.map(({ id, metadata }) => [id, metadata]),
    [['small', { tone: 'dry' }]],
  )
  assert.deepEqual(
    (await stored()).map(({ id }) => id),
    ['small'],
  )
})

/** The first two answers to a message are swallowed on their way, and it never sees its own echo. */
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
  ['a message whose answers were lost is there once', (body: string) => body, 1],
  [
    'mutant, sent again under another id: it is there more than once',
    (body: string, nth: number) => (nth === 3 ? body : body.replace(/"id":"(\w+)"/, `"id":"$1-${nth}"`)),
    3,
  ],
] as const)
  test(`L4: ${name}`, async (t) => {
    const { device, stored } = await devicesOn(t, silence)
    const lonely = device({ fetch: losingAnswers(change), random: () => 0.01 })
    assert.deepEqual(await lonely.send('once').sent, { seq: count })
    assert.equal((await stored()).length, count)
  })

test('a session that is not there is refused, and says so', async (t) => {
  const { device, until } = await devicesOn(t, silence)
  const nowhere = device({}, 'nowhere')
  await until([nowhere], 'the refusal', ({ get }) => get().connection === 'refused')
  assert.equal(nowhere.get().refusal!.code, 'not_found')
  await assert.rejects(nowhere.send('hi').sent, { code: 'not_found' })
})

test('closed, it has no timer left, tells who waits, and takes nothing more', async (t) => {
  const clock = manualClock()
  const { device, until } = await devicesOn(t, silence)
  const here = device({ clock })
  await until([here], 'the stream', ({ get }) => get().connection === 'live')
  const { sent } = here.send('too late')
  here.close()
  await assert.rejects(sent, { code: 'unavailable' })
  assert.throws(() => here.send('later'), { code: 'unavailable' })
  assert.equal(here.get().connection, 'offline')
  await eventually(() => assert.equal(clock.sleepers, 0), { what: 'no timer' })
})

test('what the caller does later changes nothing; what is no JSON, or there already, is not sent', async (t) => {
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

test('who joins late knows how the last turn ended', async (t) => {
  const { here, device, until } = await devicesOn(t, () => {
    throw new Abort('invalid', 'It cannot.')
  })
  await here.send('hi').sent
  await until([here], 'the failure', ({ get }) => get().status === 'failed')
  const late = device({})
  await until([late], 'the failure', ({ get }) => get().status === 'failed')
  assert.deepEqual(late.get().turn, here.get().turn)
})
