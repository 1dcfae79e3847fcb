// What one socket follows, with sessions and inboxes that a test makes up. Each follower has a place, which only its generator gives back, as in
// `session/follow` and `inbox/follow`. Mistakes that make these tests fail (all were tried): see the comments `Mutant`.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatId, SOCKET_LIMITS, type Frame, type InboxFrame } from '@fleetline/protocol'
import type { SocketAnswer, SocketPeer } from '../../src/door/socket-route.ts'
import { Rejected, Retry } from '../../src/errors.ts'
import { createFeeds, type FeedDeps } from '../../src/gateway/socket/feeds.ts'
import { inboxOnSchema, joinSchema } from '../../src/gateway/socket/frames.ts'
import { notFound } from '../../src/gateway/session-key.ts'
import { orAborted } from '../../src/door/socket-writer.ts'
import type { FollowListener } from '../../src/session/follow.ts'
import { eventually } from '../support/eventually.ts'
import { userNamed } from '../support/socket-door.ts'

type Sent = Record<string, unknown>

const READER = userNamed('ada', { rights: ['read'] })
const NEVER = new Promise<void>(() => undefined)

function sessionNamed(n: number): { readonly uuid: string; readonly id: string } {
  const uuid = `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`
  return { uuid, id: formatId('session', 0, uuid) }
}

function feedsOf() {
  const over = new AbortController()
  const sent: Sent[] = []
  const does = {
    caller: READER,
    places: 0,
    room: Promise.resolve(),
    follow: async () => undefined as void,
    maySee: async () => true,
    key: async () => undefined as void,
  }
  /** Tells one frame, then waits for the end. */
  async function* telling<Told>({ signal }: FollowListener, told: Told): AsyncGenerator<Told> {
    try {
      yield told
      await orAborted(NEVER, signal)
    } finally {
      does.places -= 1
    }
  }
  const peer: SocketPeer = {
    caller: () => does.caller,
    push: async (frame, { signal }) => {
      await orAborted(does.room, AbortSignal.any([over.signal, signal]))
      if (!over.signal.aborted && !signal.aborted) sent.push(frame as Sent)
    },
    room: async () => undefined,
    cut: () => undefined,
    signal: over.signal,
    hold: () => () => undefined,
    restart: () => undefined,
  }
  const uuidOf = (id: string) =>
    Array.from({ length: 200 }, (_, n) => sessionNamed(n)).find((one) => one.id === id)!.uuid
  const deps: FeedDeps = {
    keyOf: async (_, session) => {
      await does.key()
      return { tenant: 7, session: uuidOf(session) }
    },
    maySee: () => does.maySee(),
    explainMissing: async () => notFound(),
    sessions: { find: async () => ({ session: 'it', head: 3, epoch: 1 }) as never },
    operations: {
      follow: async (_, { session }) => {
        await does.follow()
        does.places += 1
        const frame = { type: 'messages', session: formatId('session', 0, session) } as unknown as Frame
        return (listener) => telling(listener, { frame, at: { seq: 3 } })
      },
      followInbox: async () => {
        await does.follow()
        does.places += 1
        return (listener) => telling(listener, { type: 'inbox' } as unknown as InboxFrame)
      },
    },
    onError: (error) => assert.fail(String(error)),
    cell: 0,
  }
  const feeds = createFeeds(deps, peer)
  const told = (answer: SocketAnswer) => answer.onAnswered?.()
  const join = (n: number) => feeds.join(joinSchema.parse({ session: sessionNamed(n).id }), does.caller)
  const inbox = (on: boolean) => feeds.inbox(inboxOnSchema.parse({ on }), does.caller)
  const left = () => sent.filter(({ type }) => type === 'left').map(({ session, code }) => [session, code])
  const untilPlaces = (count: number) =>
    eventually(() => assert.equal(does.places, count), { what: `${count} places`, patienceMs: 2_000 })
  return { feeds, does, sent, over, join, inbox, told, left, untilPlaces }
}

// Mutant: `recheck` does not look at what the caller lacks.
test('S9: a token without the right to read ends sessions and the inbox, each with `left` and its reason', async () => {
  const { feeds, does, join, inbox, told, left, untilPlaces } = feedsOf()
  told(await join(1))
  told(await join(2))
  told(await inbox(true))
  await untilPlaces(3)
  does.caller = userNamed('ada', { rights: ['send'] })
  await feeds.recheck()
  await untilPlaces(0)
  const expected = [
    [sessionNamed(1).id, 'forbidden'],
    [sessionNamed(2).id, 'forbidden'],
    [null, 'forbidden'],
  ]
  await eventually(() => assert.deepEqual(left(), expected), { what: 'left', patienceMs: 2_000 })
})

// Mutant: `look` takes an error for a no.
test('S9: a session that the caller may not see any more ends; if nobody knows, it goes on and the recheck rejects', async () => {
  const { feeds, does, join, told, left, untilPlaces, over } = feedsOf()
  told(await join(1))
  does.maySee = async () => Promise.reject(new Retry('unavailable', 'PostgreSQL does not answer'))
  await assert.rejects(feeds.recheck(), /PostgreSQL/)
  await untilPlaces(1)
  does.maySee = async () => false
  await feeds.recheck()
  await untilPlaces(0)
  assert.deepEqual(left(), [[sessionNamed(1).id, 'not_found']])
  over.abort()
})

// Mutant: `join` does not cancel what is being told.
test('S9: `left` is not sent once the client has joined again', async () => {
  const { feeds, does, join, told, left, sent, untilPlaces, over } = feedsOf()
  told(await join(1))
  await eventually(() => assert.equal(sent.length, 1), { what: 'a frame', patienceMs: 2_000 })
  const room = Promise.withResolvers<void>()
  does.room = room.promise
  does.maySee = async () => false
  await feeds.recheck()
  does.maySee = async () => true
  told(await join(1))
  room.resolve()
  await eventually(() => assert.equal(sent.length, 2), { what: 'its frame', patienceMs: 2_000 })
  assert.deepEqual(left(), [])
  await untilPlaces(1)
  over.abort()
  await untilPlaces(0)
})

// Mutants: `pump` does not ask once the signal is aborted; a join that is replaced is not aborted.
test('a place is given back however a join ends: joined again, left, or the socket is over before the answer', async () => {
  const { feeds, does, join, inbox, told, untilPlaces, over } = feedsOf()
  const [first, second] = await Promise.all([join(1), join(1)])
  told(first)
  told(second)
  await untilPlaces(1)
  await feeds.leave(sessionNamed(1).id, READER)
  await untilPlaces(0)
  told(await inbox(true))
  told(await inbox(true))
  await untilPlaces(1)
  const gate = Promise.withResolvers<void>()
  does.follow = () => gate.promise
  const late = [join(2), inbox(true)]
  over.abort()
  gate.resolve()
  for (const answer of await Promise.all(late)) told(answer)
  await untilPlaces(0)
})

// Mutant: `openInbox` does not ask `isWanted`.
test('an inbox that the client ends stays ended, also while a new token starts it again', async () => {
  const { feeds, does, inbox, told, untilPlaces, over } = feedsOf()
  told(await inbox(true))
  await untilPlaces(1)
  const gate = Promise.withResolvers<void>()
  does.follow = () => gate.promise
  const user = { ...READER.user!, sessions: new Set([sessionNamed(1).uuid]) }
  does.caller = { ...READER, user }
  const checked = feeds.recheck()
  does.follow = async () => undefined
  await inbox(false)
  gate.resolve()
  await checked
  await untilPlaces(0)
  told(await inbox(true))
  await untilPlaces(1)
  over.abort()
  await untilPlaces(0)
})

// Mutant: `leave` swallows every error.
test('a session is left only if it was found: otherwise the client is told to try again', async () => {
  const { feeds, does, join, told, untilPlaces } = feedsOf()
  told(await join(1))
  const { id } = sessionNamed(1)
  does.key = async () => Promise.reject(new Retry('unavailable', 'PostgreSQL does not answer'))
  await assert.rejects(feeds.leave(id, READER), /PostgreSQL/)
  does.key = async () => Promise.reject(notFound())
  await feeds.leave(id, READER)
  await untilPlaces(1)
  does.key = async () => undefined
  await feeds.leave(id, READER)
  await untilPlaces(0)
})

// Mutant: `places` counts only what is followed already.
test('a socket follows at most 128 sessions, also if it joins them all at once; a join that fails takes no place', async () => {
  const { feeds, does, join, told, untilPlaces, over } = feedsOf()
  does.follow = async () => Promise.reject(new Rejected('gone', 'It was erased'))
  for (let n = 0; n < 3; n += 1) await assert.rejects(join(n), /It was erased/)
  does.follow = async () => undefined
  const joins = await Promise.allSettled(Array.from({ length: 140 }, (_, n) => join(n)))
  const joined = joins.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const refused = joins.flatMap((one) => (one.status === 'rejected' ? [(one.reason as Rejected).code] : []))
  assert.equal(joined.length, SOCKET_LIMITS.joined)
  assert.deepEqual(new Set(refused), new Set(['too_many']))
  joined.forEach(told)
  told(await join(5)) // again: it has its place already
  await untilPlaces(SOCKET_LIMITS.joined)
  await feeds.leave(sessionNamed(5).id, READER)
  told(await join(150))
  await untilPlaces(SOCKET_LIMITS.joined)
  over.abort()
  await untilPlaces(0)
})
