// What one socket follows: sessions and an inbox, each as fast as the client reads. Guarantees:
//   S3, S4  a session is followed only after a check that the caller may see it
//   S9      the socket stops following what the caller may not see any more, and tells the client so (`left`)
import {
  formatId,
  JOIN_LIMITS,
  PAGE_LIMITS,
  SOCKET_LIMITS,
  type Session as SessionFacts,
  type JoinedFrame,
} from '@fleetline/protocol'
import { refusalOf } from '../../door/refusal.ts'
import { outOfScope } from '../../door/scope.ts'
import type { SocketAnswer, SocketPeer, SocketSide } from '../../door/socket-route.ts'
import { Rejected } from '../../errors.ts'
import type { Principal } from '../../identity/principal.ts'
import type { Cursor, FollowListener } from '../../session/follow.ts'
import type { SessionKey } from '../../session/items.ts'
import type { Sessions } from '../../session/sessions.ts'
import { READ } from '../caller.ts'
import { formatCursor } from '../cursor.ts'
import { inboxOf, type Operations } from '../operations.ts'
import { notFound, type SessionKeys } from '../session-key.ts'
import type { InboxOn, Join } from './frames.ts'

export type Feeds = SocketSide & {
  readonly join: (frame: Join, principal: Principal) => Promise<SocketAnswer>
  readonly leave: (session: string, principal: Principal) => Promise<void>
  readonly inbox: (frame: InboxOn, principal: Principal) => Promise<SocketAnswer>
}
export type FeedDeps = Pick<SessionKeys, 'keyOf' | 'maySee' | 'explainMissing'> & {
  readonly sessions: Pick<Sessions, 'find'>
  readonly operations: Pick<Operations, 'follow' | 'followInbox'>
  readonly onError: (error: unknown) => void
  readonly cell: number
}

type SessionFeed = { readonly key: SessionKey; readonly ending: AbortController }
/** `sees`: the sessions that its token named. */
type InboxFeed = { readonly frame: InboxOn; readonly sees: string; readonly ending: AbortController }
type Following<Told> = (listener: FollowListener) => AsyncGenerator<Told>

const ACK: SocketAnswer = { frame: { type: 'ack' } }

export function createFeeds(deps: FeedDeps, peer: SocketPeer): Feeds {
  const { keyOf, maySee, explainMissing, sessions, operations } = deps
  const [feeds, places] = [new Map<string, SessionFeed>(), createPlaces()]
  const leaving = createLeaving(deps, peer)
  let inbox: InboxFeed | undefined
  const end = (feed: SessionFeed, why: unknown) => {
    if (feeds.get(feed.key.session) !== feed) return // the client has left it, or has joined it again
    feeds.delete(feed.key.session)
    feed.ending.abort()
    leaving.tell(feed.key.session, why)
  }
  const run = async (feed: SessionFeed, following: Awaited<ReturnType<Operations['follow']>>) => {
    const signal = AbortSignal.any([peer.signal, feed.ending.signal])
    try {
      await pump(peer, following, signal, ({ frame, at }) => ({
        frame: { ...frame, cursor: formatCursor(at) },
        mark: `${frame.session} at ${at.seq}`,
      }))
      if (!signal.aborted) end(feed, await explainMissing(feed.key))
    } catch (error) {
      if (!signal.aborted) end(feed, error)
    }
  }
  const join = async (frame: Join, principal: Principal): Promise<SocketAnswer> => {
    const key = await keyOf(principal, frame.session)
    places.take(feeds, key.session)
    try {
      const facts = await sessions.find(key)
      if (!facts) throw await explainMissing(key)
      const from = placeOf(facts, frame)
      const following = await operations.follow(principal, key, from)
      const feed = { key, ending: new AbortController() }
      feeds.get(key.session)?.ending.abort()
      leaving.cancel(key.session)
      feeds.set(key.session, feed)
      const joined: Omit<JoinedFrame, 'cid'> = {
        type: 'joined',
        session: facts.session,
        facts,
        from: from.seq,
      }
      return { frame: joined, onAnswered: () => void run(feed, following) }
    } finally {
      places.give(key.session)
    }
  }
  const openInbox = async (
    frame: InboxOn,
    principal: Principal,
    isWanted = () => true,
  ): Promise<SocketAnswer> => {
    const mine = inboxOf({ principal, part: 'frame' }, frame.user)
    const { show, limit } = frame
    const follow = () => operations.followInbox(principal, mine, { show, limit })
    const following = await follow()
    const feed: InboxFeed = { frame, sees: seenBy(principal), ending: new AbortController() }
    if (isWanted()) {
      inbox?.ending.abort()
      leaving.cancel(null)
      inbox = feed
    } else feed.ending.abort() // its follower then leaves at once
    const signal = AbortSignal.any([peer.signal, feed.ending.signal])
    return { ...ACK, onAnswered: () => void runInbox(feed, { follow, following, signal }) }
  }
  const endInbox = (feed: InboxFeed, why: unknown) => {
    if (inbox !== feed) return
    inbox = undefined
    feed.ending.abort()
    leaving.tell(null, why)
  }
  /** An inbox that ends, begins again with its first page. */
  const runInbox = async (feed: InboxFeed, { follow, following, signal }: InboxRun) => {
    try {
      for (let next = following; ; next = await follow()) {
        await pump(peer, next, signal, (frame) => ({ frame }))
        if (signal.aborted) return
      }
    } catch (error) {
      if (!signal.aborted) endInbox(feed, error)
    }
  }
  /** A new token may name other sessions. */
  const recheckInbox = async (principal: Principal, lack: Rejected | undefined) => {
    if (!inbox) return
    if (lack) return endInbox(inbox, lack)
    if (inbox.sees === seenBy(principal)) return
    const before = inbox
    try {
      const { onAnswered } = await openInbox(before.frame, principal, () => inbox === before)
      onAnswered?.()
    } catch (error) {
      endInbox(before, error)
    }
  }
  return {
    join,
    leave: async (session, principal) => {
      const key = await keyOf(principal, session).catch((error: unknown) => {
        if (error instanceof Rejected) return undefined // not the caller's session: nothing to leave, or the next recheck ends it
        throw error
      })
      if (!key) return
      feeds.get(key.session)?.ending.abort()
      feeds.delete(key.session)
      leaving.cancel(key.session)
    },
    inbox: async (frame, principal) => {
      if (frame.on) return openInbox(frame, principal)
      inbox?.ending.abort()
      inbox = undefined
      leaving.cancel(null)
      return ACK
    },
    recheck: async () => {
      const principal = peer.caller()
      const lack = outOfScope(principal, READ)
      const look = async (feed: SessionFeed) => {
        if (lack) end(feed, lack)
        else if (!(await maySee(principal, feed.key))) end(feed, notFound())
      }
      await Promise.all([...Array.from(feeds.values(), look), recheckInbox(principal, lack)])
    },
  }
}

type InboxRun = {
  readonly follow: () => ReturnType<Operations['followInbox']>
  readonly following: Awaited<ReturnType<Operations['followInbox']>>
  readonly signal: AbortSignal
}

/** Counts the sessions that are about to be joined, too, so that joins at the same time stay within the limit. */
function createPlaces() {
  const taken = new Map<string, number>()
  return {
    take: (feeds: ReadonlyMap<string, SessionFeed>, session: string) => {
      const others = Array.from(taken.keys()).filter((other) => other !== session && !feeds.has(other)).length
      if (!feeds.has(session) && feeds.size + others >= SOCKET_LIMITS.joined)
        throw new Rejected(
          'too_many',
          `A socket follows at most ${SOCKET_LIMITS.joined} sessions. Leave one first, or open another socket`,
        )
      taken.set(session, (taken.get(session) ?? 0) + 1)
    },
    give: (session: string) => {
      const left = taken.get(session)! - 1
      if (left === 0) taken.delete(session)
      else taken.set(session, left)
    },
  }
}

/** Sends `left` for a session, or for the inbox (null), unless the client follows it again before the frame is sent. */
function createLeaving({ onError, cell }: FeedDeps, peer: SocketPeer) {
  const leaving = new Map<string | null, AbortController>()
  const cancel = (session: string | null) => {
    leaving.get(session)?.abort()
    leaving.delete(session)
  }
  return {
    cancel,
    tell: (session: string | null, why: unknown) => {
      const { code, text } = refusalOf(why)
      if (code === 'internal') onError(why)
      cancel(session)
      const mine = new AbortController()
      leaving.set(session, mine)
      const named = session === null ? null : formatId('session', cell, session)
      const signal = AbortSignal.any([peer.signal, mine.signal])
      void peer.push({ type: 'left', session: named, code, text }, { signal }).finally(() => {
        if (leaving.get(session) === mine) leaving.delete(session)
      })
    },
  }
}

/** Sends what the generator yields, one frame at a time. Calls it at least once: before that, `return` would not free its follower. */
async function pump<Told>(
  peer: SocketPeer,
  following: Following<Told>,
  signal: AbortSignal,
  frameOf: (told: Told) => { readonly frame: object; readonly mark?: string },
): Promise<void> {
  const telling = following({ signal, cut: peer.cut })
  try {
    for (;;) {
      await peer.room(signal)
      const { done, value } = await telling.next()
      if (done === true) return
      const { frame, mark } = frameOf(value)
      await peer.push(frame, { signal, ...(mark !== undefined && { mark }) })
    }
  } finally {
    await telling.return(undefined)
  }
}

/** Where the client continues: after its position, or with the last messages if it has none, is too far behind, or has another history. */
export function placeOf(
  { head, epoch }: Pick<SessionFacts, 'head' | 'epoch'>,
  { cursor, after, epoch: since, limit }: Omit<Join, 'session'>,
): Cursor {
  const ended = since === undefined ? undefined : since - 1
  const asked: Cursor | undefined = cursor ?? (after == null ? undefined : { seq: after, ended })
  if (asked && asked.seq <= head && head - asked.seq <= JOIN_LIMITS.behind) return asked
  return {
    seq: Math.max(0, head - limit),
    ended: Math.max(0, Math.min(asked?.ended ?? PAGE_LIMITS.seq, epoch - 2)), // it is told the last end again; a stop has moved the epoch once more
    erased: PAGE_LIMITS.seq, // it reads the messages as they are now
  }
}

function seenBy({ user }: Principal): string {
  return JSON.stringify(user?.sessions ? [...user.sessions].toSorted() : null)
}
