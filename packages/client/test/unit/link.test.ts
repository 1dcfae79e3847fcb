// The socket of a client, against a server that answers as the test tells it, on a clock that the test moves. Whatever happens to the
// connection, what is followed is followed again; and nothing is left when the client is closed.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { CLOSE_CODES } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { FleetlineError } from '../../src/failure.ts'
import { sceneOn, type Scene } from '../support/scripted-pod.ts'

const refusal = (code: string, more: object = {}) => ({
  type: 'error',
  code,
  text: 'No.',
  retryable: false,
  ...more,
})
const codeOf = (end: unknown) => (end instanceof FleetlineError ? end.code : end)

/** Lets what has been sent arrive. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1))
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Lets 5 s pass in steps, so that what is sent meanwhile is answered in time. */
async function pass(clock: Scene['clock']): Promise<void> {
  for (let step = 0; step < 10; step += 1) {
    await quiet()
    await clock.advance(500)
  }
}

/** Lets time pass until it has begun, after the longest pause at the latest. */
async function comeBack(
  { clock, begun }: Pick<Scene, 'clock' | 'begun'>,
  ...followers: ReturnType<Scene['follow']>[]
): Promise<void> {
  const isBegun = () => followers.every(({ states }) => states.at(-1) === 'begun')
  for (let round = 0; round < 8 && !isBegun(); round += 1) await pass(clock)
  await begun(...followers)
}

async function following(t: TestContext, ...names: (string | null)[]) {
  const scene = await sceneOn(t)
  const followers = names.map((name) => scene.follow(name))
  await scene.begun(...followers)
  return { ...scene, followers }
}

test('sessions and the inbox share one socket, and go on after every kind of loss, after a pause', async (t) => {
  const { followers, connections, clock, until, begun, open, newest, frame } = await following(
    t,
    'ses_1',
    'alias-2',
    null,
  )
  const ways: readonly ((scene: ReturnType<typeof newest>) => unknown)[] = [
    ({ peer }) => peer.terminate(),
    ...[CLOSE_CODES.restart, CLOSE_CODES.overload, CLOSE_CODES.slow, CLOSE_CODES.tooMany, 1000].map(
      (code) => (scene: ReturnType<typeof newest>) => scene.peer.close(code),
    ),
    () => clock.advance(40_000), // silence
  ]
  for (const [nth, lose] of ways.entries()) {
    await clock.advance(5_000) // then it counts as steady
    for (const { name } of followers) newest().send(frame(name, `${nth}`))
    await until('the frames', () => followers.every(({ taken }) => taken.at(-1) === `${nth}`))
    await lose(newest())
    await until('the loss', () => followers.every(({ states }) => states.at(-1) === 'lost'))
    await clock.advance(124)
    await quiet()
    assert.equal(connections.length, nth + 1, 'it pauses for half of 250 ms')
    await clock.advance(1)
    await begun(...followers)
    assert.equal(open().length, 1)
  }
  assert.deepEqual(
    followers.map(({ end }) => end),
    [undefined, undefined, undefined],
  )
})

test('a frame of the feed before is not taken after a session has begun again', async (t) => {
  const { followers, state, until, clock, newest, frame } = await following(t, 'ses_1')
  const { taken } = followers[0]!
  state.script = (asked, { send }) => {
    if (asked.type === 'join') for (const mark of ['late', 'hole']) send(frame('ses_1', mark))
    return undefined
  }
  newest().send(frame('ses_1', 'hole'))
  newest().send(frame('ses_1', 'after the hole'))
  await until('the hole', () => taken.length === 1)
  await pass(clock)
  await until('the second beginning', () => followers[0]!.states.at(-1) === 'begun')
  newest().send(frame('ses_1', 'next'))
  await until('the next frame', () => taken.length === 2)
  assert.deepEqual(taken, ['hole', 'next'])
})

test('a session that always misses something begins again more and more rarely', async (t) => {
  const { state, follow, clock, frame, newest, until } = await sceneOn(t)
  state.script = ({ type }, { send }) => {
    if (type === 'join') setImmediate(() => send(frame('ses_1', 'hole')))
    return undefined
  }
  const { states } = follow('ses_1')
  const lost = (count: number) => states.filter((one) => one === 'lost').length === count
  for (const [nth, pauseMs] of [250, 500, 1_000, 2_000].entries()) {
    await until('the loss', () => lost(nth + 1))
    newest().send({ type: 'tick' })
    await quiet()
    await clock.advance(pauseMs - 1)
    await quiet()
    assert.ok(lost(nth + 1), `a pause of ${pauseMs} ms`)
    await clock.advance(1)
  }
})

test('a join that fails is tried again after the wait that the pod names; one that is refused ends, and the others go on', async (t) => {
  const { state, follow, clock, begun, until, open } = await sceneOn(t)
  const answers: Record<string, object[]> = {
    ses_1: [refusal('rate_limited', { retryable: true, retryAfterMs: 3_000 })],
    ses_2: [refusal('not_found')],
  }
  state.script = (asked) => {
    const answer = asked.type === 'join' ? answers[asked.session]?.shift() : undefined
    return answer && { ...answer, cid: asked.cid }
  }
  const [limited, missing, fine] = ['ses_1', 'ses_2', 'ses_3'].map(follow)
  await until('the refusal', () => missing!.end)
  assert.equal(codeOf(missing!.end), 'not_found')
  await begun(fine!)
  await clock.advance(2_999)
  await quiet()
  assert.deepEqual(limited!.states, ['lost'])
  await clock.advance(1)
  await begun(limited!)
  assert.equal(open().length, 1)
})

test('a pod that leaves a session says whether it may begin again', async (t) => {
  const { followers, newest, clock, until, begun } = await following(t, 'ses_1', null)
  for (const session of ['ses_1', null])
    newest().send({ type: 'left', session, code: 'unavailable', text: 'Wait.' })
  await until('the loss', () => followers.every(({ states }) => states.at(-1) === 'lost'))
  await comeBack({ clock, begun }, ...followers)
  for (const session of ['ses_1', null])
    newest().send({ type: 'left', session, code: 'not_found', text: 'Gone.' })
  await until('the end', () => followers.every(({ end }) => codeOf(end) === 'not_found'))
})

test('a command without an answer fails after 10 s; its pod is pinged, and the connection is replaced if it is dead', async (t) => {
  const { followers, state, link, clock, until, begun, connections, newest } = await following(t, 'ses_1')
  const read = { type: 'read', session: 'ses_1', seq: 1 } as const
  let outcome = ''
  const ask = async () => {
    outcome = 'waits'
    await link.request(read, new AbortController().signal)!.then(
      () => (outcome = 'answered'),
      (error: FleetlineError) => (outcome = `${error.code} ${error.isRefused}`),
    )
  }
  state.script = ({ type }) => (type === 'read' ? null : undefined)
  for (const isDead of [false, true]) {
    if (isDead) state.script = () => null
    void ask()
    await quiet()
    await clock.advance(9_999)
    assert.equal(outcome, 'waits')
    await clock.advance(1)
    await until('the time-out', () => outcome === 'unavailable false')
    await until('the ping', () => newest().asked.at(-1)!.type === 'ping')
    await quiet()
    await clock.advance(5_000)
    await quiet()
    assert.equal(followers[0]!.states.at(-1), isDead ? 'lost' : 'begun')
  }
  state.script = () => undefined
  await clock.advance(1_000)
  await begun(...followers)
  assert.equal(connections.length, 2)
})

test('a join without an answer is sent again', async (t) => {
  const { state, follow, clock, begun, until, newest } = await sceneOn(t)
  state.script = ({ type }) => (type === 'join' ? null : undefined)
  const follower = follow('ses_1')
  await until('the join', () => newest()?.asked.some(({ type }) => type === 'join'))
  state.script = () => undefined
  await clock.advance(10_000)
  await quiet()
  await clock.advance(250)
  await begun(follower)
})

test('requests that were not answered when the connection is lost fail, and a frame that could end it goes another way', async (t) => {
  const { state, link, newest } = await following(t, 'ses_1')
  const signal = new AbortController().signal
  const sendOf = (part: object) =>
    link.request(
      { type: 'send', session: 'ses_1', message: { id: 'm', parts: [{ type: 'data', ...part }] } },
      signal,
    )
  assert.equal(sendOf({ text: 'x'.repeat(100_000) }), undefined)
  const deep = Array.from({ length: 70 }).reduce<unknown>((inner) => [inner], 1)
  assert.equal(sendOf({ deep }), undefined)
  assert.deepEqual(await sendOf({ text: 'short' }), { done: 'send' })
  state.script = ({ type }) => (type === 'send' ? null : undefined)
  const outcome = assert.rejects(sendOf({})!, { code: 'unavailable', isRefused: false })
  await quiet()
  newest().peer.terminate()
  await outcome
  assert.equal(sendOf({}), undefined, 'no connection is open')
  const aborted = AbortSignal.abort(new Error('closed'))
  assert.equal(link.request({ type: 'read', session: 'ses_1', seq: 1 }, aborted), undefined)
})

const REJECTS = CLOSE_CODES.unauthenticated

/** Closes each connection whose token is listed. */
function rejecting(scene: Scene, rejected: ReadonlySet<string | undefined>) {
  scene.state.script = ({ type, token }, { peer }) => {
    if (type !== 'hello' || !rejected.has(token)) return undefined
    peer.close(REJECTS, 'Expired.')
    return null
  }
}

for (const [name, source, rejected, end] of [
  ['a token that has expired is replaced', () => `t${(count += 1)}`, ['t1'], undefined],
  [
    'a second token that is rejected, too, ends it',
    () => `t${(count += 1)}`,
    ['t1', 't2'],
    'unauthenticated',
  ],
  ['a fixed token that is rejected ends it', 'fixed', ['fixed'], 'unauthenticated'],
] as const)
  test(`${name}, at the beginning and in the middle of its life`, async (t) => {
    count = 0
    const scene = await sceneOn(t, { token: source })
    rejecting(scene, new Set(rejected))
    const first = scene.follow('ses_1')
    const settled = async () => {
      for (let round = 0; round < 4; round += 1) {
        await quiet()
        await scene.clock.advance(1_000)
      }
    }
    await settled()
    assert.equal(codeOf(first.end), end)
    if (end !== undefined) assert.equal(scene.connections.length, rejected.length)
    rejecting(scene, new Set())
    const second = scene.follow('ses_2') // what is opened later tries again
    await settled()
    await scene.begun(second)
    const own = `t${count}`
    scene.newest().peer.close(REJECTS, 'Revoked.')
    rejecting(scene, new Set([own]))
    await settled()
    assert.equal(codeOf(second.end), source === 'fixed' ? 'unauthenticated' : undefined)
    if (source !== 'fixed') await scene.begun(second)
  })
let count = 0

test('a new token goes over the open connection', async (t) => {
  const claims = Buffer.from('{"iat":1000,"exp":1030}').toString('base64url')
  let calls = 0
  const { follow, begun, clock, until, newest, connections } = await sceneOn(t, {
    token: () => `${(calls += 1)}.${claims}.x`,
  })
  const follower = follow('ses_1')
  await begun(follower)
  await clock.advance(20_000)
  const hellos = () => newest().asked.filter(({ type }) => type === 'hello')
  await until('the new token', () => hellos().length === 2)
  assert.deepEqual(
    hellos().map(({ token }) => token),
    [`1.${claims}.x`, `2.${claims}.x`],
  )
  assert.equal(connections.length, 1)
  assert.deepEqual(follower.states, ['begun'])
})

test('a token function that fails is called again, and says nothing about sockets; one that refuses ends it', async (t) => {
  let answer: () => string = () => {
    throw new Error('The back end is down')
  }
  const { follow, begun, clock, until, state } = await sceneOn(t, { token: () => answer() })
  const first = follow('ses_1')
  for (let round = 0; round < 5; round += 1) {
    await pass(clock)
  }
  assert.deepEqual([first.end, state.attempts], [undefined, 0])
  answer = () => 'token'
  await comeBack({ clock, begun }, first)
  first.close()
  await clock.advance(30_000)
  answer = () => {
    throw new FleetlineError({ code: 'unauthenticated', text: 'Log in again.' }, { isRefused: true })
  }
  const scene = await sceneOn(t, { token: () => answer() })
  const second = scene.follow('ses_2')
  await until('the end', () => codeOf(second.end) === 'unauthenticated')
})

test('a client that is asked to move opens the next connection first, and requests under way are answered on the old one', async (t) => {
  const { followers, state, link, clock, until, open, connections, frame } = await following(t, 'ses_1', null)
  const [old] = connections
  let answer = () => {}
  state.script = ({ type, cid }, { send }) => {
    if (type !== 'read') return undefined
    answer = () => send({ type: 'ack', cid, read: 7 })
    return null
  }
  const read = link.request({ type: 'read', session: 'ses_1', seq: 7 }, new AbortController().signal)!
  old!.send({ type: 'reconnect', afterMs: 2_000 })
  old!.send({ type: 'reconnect', afterMs: 2_000 })
  await quiet()
  await clock.advance(1_999)
  await quiet()
  assert.equal(connections.length, 1)
  await clock.advance(1)
  await until('the next connection', () => connections.length === 2 && connections[1]!.fed.size === 2)
  await until('the second beginning', () => followers.every(({ states }) => states.length === 2))
  old!.send(frame('ses_1', 'old'))
  connections[1]!.send(frame('ses_1', 'new'))
  await until('the frame', () => followers[0]!.taken.length > 0)
  answer()
  assert.deepEqual(await read, { read: 7 })
  await until('the end of the old one', () => open().length === 1)
  assert.deepEqual(followers[0]!.taken, ['new'])
  assert.deepEqual(
    followers.map(({ states }) => states),
    [
      ['begun', 'begun'],
      ['begun', 'begun'],
    ],
  )
  assert.equal(state.most, 2)
})

test('a client that is asked to move before it is welcome moves, too', async (t) => {
  const { state, follow, begun, clock, until, connections, open } = await sceneOn(t)
  state.script = ({ type }, { send }) => {
    if (type === 'hello' && connections.length === 1) send({ type: 'reconnect', afterMs: 1_000 })
    return undefined
  }
  const follower = follow('ses_1')
  await begun(follower)
  await clock.advance(1_000)
  await until('the move', () => connections[1]?.fed.has('ses_1') && open().length === 1)
  assert.deepEqual(follower.states, ['begun', 'begun'], 'nothing was lost')
})

test('a connection that ends before the client has moved is lost like any other, and never are there two', async (t) => {
  const { followers, state, link, clock, until, begun, open, newest } = await following(t, 'ses_1')
  newest().send({ type: 'reconnect', afterMs: 20_000 })
  await quiet()
  newest().peer.close(CLOSE_CODES.restart)
  await until('the loss', () => followers[0]!.states.at(-1) === 'lost')
  assert.equal(
    link.request({ type: 'read', session: 'ses_1', seq: 1 }, new AbortController().signal),
    undefined,
  )
  await clock.advance(250)
  await begun(...followers)
  await clock.advance(20_000)
  await quiet()
  assert.deepEqual([open().length, state.most], [1, 1])

  // it ends while the next one waits for its welcome
  state.script = ({ type }) => (type === 'hello' ? null : undefined)
  const old = newest()
  old.send({ type: 'reconnect', afterMs: 0 })
  await quiet()
  await clock.advance(0)
  await until('the next one', () => open().length === 2)
  old.peer.terminate()
  await until('the loss', () => followers[0]!.states.at(-1) === 'lost')
  newest().send({ type: 'welcome' })
  await begun(...followers)
  assert.equal(open().length, 1)
})

test('where no socket can be opened, followers are told so after two attempts, and a minute later they come back', async (t) => {
  const { state, follow, link, clock, until, begun, connections } = await sceneOn(t)
  state.isBlocked = true
  const first = follow('ses_1')
  await until('the first attempt', () => state.attempts === 1 && clock.sleepers === 1)
  await pass(clock)
  await until('the end', () => first.end === 'other')
  assert.equal(state.attempts, 2)
  const usable = link.usable()
  assert.equal(usable.aborted, false)
  await clock.advance(60_000)
  await until('the third attempt', () => state.attempts === 3)
  state.isBlocked = false
  await quiet()
  await clock.advance(60_000)
  await until('the socket', () => usable.aborted)
  const second = follow('ses_1')
  await begun(second)
  state.isBlocked = true
  connections[0]!.peer.terminate()
  for (let round = 0; round < 4; round += 1) {
    await pass(clock)
  }
  assert.equal(second.end, undefined, 'sockets have worked here')
  state.isBlocked = false
  await comeBack({ clock, begun }, second)
})

test('a user with too many sockets follows over event streams, until a pod takes a socket again', async (t) => {
  const { state, follow, clock, until, begun } = await sceneOn(t)
  state.script = ({ type }, { peer }) => {
    if (type !== 'hello') return undefined
    peer.close(CLOSE_CODES.tooMany)
    return null
  }
  const first = follow('ses_1')
  for (let round = 0; round < 4 && first.end === undefined; round += 1) await pass(clock)
  await until('the end', () => first.end === 'other')
  state.script = () => undefined
  await quiet()
  await clock.advance(60_000)
  await begun(follow('ses_1'))
})

function blocked(): never {
  throw new DOMException('Blocked.', 'SecurityError')
}

for (const [name, Refusing] of [
  ['a browser that allows no socket', blocked as unknown as typeof WebSocket],
  [
    'something in between that takes sockets and passes nothing on',
    class extends WebSocket {
      override send() {}
    },
  ],
] as const)
  test(`${name} is found out, too`, async (t) => {
    const { follow, clock, until } = await sceneOn(t, { WebSocket: Refusing })
    const follower = follow('ses_1')
    for (let round = 0; round < 2; round += 1) {
      await quiet()
      await clock.advance(10_000)
      await quiet()
      await clock.advance(1_000)
    }
    await until('the end', () => follower.end === 'other')
  })

test('a session is carried once, and one inbox: a second one is told to follow elsewhere, and the first one goes on', async (t) => {
  const { followers, follow, until, begun, newest, frame } = await following(t, 'ses_1', null)
  const seconds = [follow('alias-1'), follow(null)]
  await until('the ends', () => seconds.every(({ end }) => codeOf(end) === 'too_many'))
  await until('the second beginning', () => followers.every(({ states }) => states.length === 2))
  for (const { name } of followers) newest().send(frame(name, 'next'))
  await until('the frames', () => followers.every(({ taken }) => taken.at(-1) === 'next'))
  seconds.forEach(({ close }) => close())
  await quiet()
  assert.deepEqual([...newest().fed], ['ses_1', null], 'what ends elsewhere leaves nothing here')
  followers.forEach(({ close }) => close())
  const again = follow('ses_1') // as a page does that is shown again
  await begun(again)
  assert.deepEqual([...newest().fed], ['ses_1'])
})

test('a second one that is closed before it is answered does not end the first one', async (t) => {
  const { followers, follow, until, newest, frame } = await following(t, 'ses_1', null)
  for (const name of ['alias-1', null]) follow(name).close()
  await until('the second beginning', () => followers.every(({ states }) => states.length === 2))
  assert.deepEqual([...newest().fed], ['ses_1', null])
  for (const { name } of followers) newest().send(frame(name, 'next'))
  await until('the frames', () => followers.every(({ taken }) => taken.at(-1) === 'next'))
})

test('a session that is closed before its join is answered is left, and a socket without any is closed after 30 s', async (t) => {
  const { state, follow, until, clock, newest, open } = await sceneOn(t)
  const held: (() => void)[] = []
  state.script = ({ type, cid }, { send }) => {
    if (type !== 'join') return undefined
    held.push(() => send({ type: 'joined', cid, session: 'ses_1', facts: { head: 0 }, from: 0 }))
    return null
  }
  const { close } = follow('ses_1')
  await until('the join', () => held.length === 1)
  close()
  held[0]!()
  await until('the leave', () => newest().asked.at(-1)!.type === 'leave')
  newest().send({ type: 'tick' })
  await quiet()
  await clock.advance(29_999)
  assert.equal(open().length, 1)
  await clock.advance(1)
  await until('the end', () => open().length === 0 && clock.sleepers === 0)
})

test('what is followed at the moment at which everything was refused is followed, too', async (t) => {
  const scene = await sceneOn(t, { token: 'fixed' })
  rejecting(scene, new Set(['fixed']))
  const first = scene.follow('ses_1')
  const second = new Promise<ReturnType<Scene['follow']>>((resolve) => {
    first.onEnd = () => {
      rejecting(scene, new Set())
      resolve(scene.follow('ses_2'))
    }
  })
  await comeBack(scene, await second)
})

test('a socket that could be opened after all is closed after 30 s if nothing needs it any more', async (t) => {
  const { state, follow, link, clock, until, open } = await sceneOn(t)
  state.isBlocked = true
  const follower = follow('ses_1')
  await pass(clock)
  await until('the end', () => follower.end === 'other')
  state.isBlocked = false
  await clock.advance(60_000)
  await until('the socket', () => link.usable().aborted && open().length === 1)
  await clock.advance(30_000)
  await until('its end', () => open().length === 0 && clock.sleepers === 0)
})

test('a link that is closed leaves no timer and no socket, whatever it was doing', async (t) => {
  const steps: Record<string, (scene: Scene) => Promise<unknown>> = {
    'asks for a token': async () => quiet(),
    'opens a socket': async () => undefined,
    'waits for the welcome': async ({ until, newest }) => until('hello', () => newest()?.asked.length === 1),
    'waits for an answer': async ({ until, newest }) => until('join', () => newest()?.asked.length === 2),
    pauses: async ({ until, clock }) => until('the pause', () => clock.sleepers === 1),
    moves: async ({ begun, newest, follow }) => {
      await begun(follow('ses_2'))
      newest().send({ type: 'reconnect', afterMs: 10_000 })
      await quiet()
    },
    'uses event streams': async ({ clock, until, link }) => {
      await until('the first attempt', () => clock.sleepers === 1)
      await pass(clock)
      await until('the fallback', () => !link.usable().aborted)
    },
    'is idle': async ({ begun, follow }) => {
      const one = follow('ses_2')
      await begun(one)
      one.close()
    },
  }
  for (const [name, step] of Object.entries(steps)) {
    const token = Promise.withResolvers<string>()
    const scene = await sceneOn(t, name === 'asks for a token' ? { token: () => token.promise } : {})
    scene.state.isBlocked = ['pauses', 'uses event streams'].includes(name)
    const silent = { 'waits for the welcome': 'hello', 'waits for an answer': 'join' }[name]
    scene.state.script = ({ type }) => (type === silent ? null : undefined)
    const { close } = scene.follow('ses_1')
    if (name === 'is idle') close()
    await step(scene)
    scene.link.close() // its followers are closed after it, here
    token.resolve('late')
    await quiet()
    await scene.close()
    assert.equal(scene.open().length, 0, name)
  }
})

type Move =
  | { readonly follow: number }
  /** It is closed before it can be answered. */
  | { readonly brief: number }
  | { readonly unfollow: number }
  | {
      readonly say:
        | 'terminate'
        | 'restart'
        | 'move'
        | 'hole'
        | 'left'
        | 'deaf'
        | 'failing'
        | 'fine'
        | 'block'
        | 'wake'
    }
  | { readonly passMs: number }
const NAMES = ['ses_1', 'ses_2', 'alias-1', null] as const
const moves = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ follow: fc.nat(3) }) },
    { weight: 2, arbitrary: fc.record({ brief: fc.nat(3) }) },
    { weight: 2, arbitrary: fc.record({ unfollow: fc.nat(9) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        say: fc.constantFrom(
          ...([
            'terminate',
            'restart',
            'move',
            'hole',
            'left',
            'deaf',
            'failing',
            'fine',
            'block',
            'wake',
          ] as const),
        ),
      }),
    },
    { weight: 3, arbitrary: fc.record({ passMs: fc.constantFrom(1, 200, 5_000, 12_000) }) },
  ),
  { minLength: 4, maxLength: 16 },
)

/** Runs the moves. In the end, with a network and a pod that are fine, exactly what is wanted is fed, over one socket. */
async function play(scene: Scene, played: readonly Move[]): Promise<void> {
  const { state, follow, clock, link, open, frame, until } = scene
  const wanted: ReturnType<Scene['follow']>[] = []
  const say = (what: (Move & { readonly say: string })['say']) => {
    const newest = open().at(-1)
    switch (what) {
      case 'terminate':
        return newest?.peer.terminate()
      case 'restart':
        return newest?.peer.close(CLOSE_CODES.restart)
      case 'move':
        return newest?.send({ type: 'reconnect', afterMs: 300 })
      case 'hole':
        return newest?.send(frame('ses_1', 'hole'))
      case 'left':
        if (newest?.fed.delete('ses_1') !== true) return
        return newest.send({ type: 'left', session: 'ses_1', code: 'unavailable', text: 'Wait.' })
      case 'deaf':
        return void (state.script = () => null)
      case 'failing':
        return void (state.script = ({ type, cid }) =>
          type === 'hello' ? undefined : { ...refusal('unavailable', { retryable: true }), cid })
      case 'fine':
        return void ([state.script, state.isBlocked] = [() => undefined, false])
      case 'block':
        return void (state.isBlocked = true)
      case 'wake':
        return link.wake()
    }
  }
  for (const move of played) {
    if ('follow' in move) wanted.push(follow(NAMES[move.follow]!))
    else if ('brief' in move) follow(NAMES[move.brief]!).close()
    else if ('unfollow' in move) wanted.splice(move.unfollow % (wanted.length || 1), 1)[0]?.close()
    else if ('passMs' in move) await clock.advance(move.passMs)
    else say(move.say)
    await quiet()
  }
  say('fine')
  const left = () => wanted.filter(({ end }) => end === undefined)
  const isSettled = () => {
    const fed = new Set(left().map(({ name }) => (name === 'alias-1' ? 'ses_1' : name)))
    if (fed.size === 0) return true
    const [socket, ...others] = open()
    return (
      others.length === 0 &&
      left().every(({ states }) => states.at(-1) === 'begun') &&
      socket?.fed.size === fed.size &&
      Array.from(fed).every((name) => socket.fed.has(name))
    )
  }
  for (let round = 0; round < 60 && !isSettled(); round += 1) {
    await clock.advance(2_000)
    for (const { send } of open()) send({ type: 'tick' })
    await quiet()
  }
  await until('what is wanted to be fed, and nothing else', isSettled)
  for (const { end } of wanted)
    assert.ok([undefined, 'too_many', 'other'].includes(codeOf(end) as string), String(end))
  assert.ok(state.most <= 2)
}

test('whatever happens to the connections, what is followed is fed in the end, once, and nothing else is', async () => {
  await fc.assert(
    fc.asyncProperty(moves, async (played) => {
      const closings: (() => unknown)[] = []
      const scene = await sceneOn({ after: (close) => void closings.push(close) })
      try {
        await play(scene, played)
      } finally {
        for (const close of closings) await close()
      }
    }),
    { seed: 5, numRuns: 60, endOnFailure: true },
  )
})
