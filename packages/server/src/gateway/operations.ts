// What callers do in sessions: send, stop, rewrite, mark as read, follow. HTTP routes and the commands of a socket both call these functions, so
// that they cannot differ. Guarantees:
//   S3  a caller reaches the sessions that it may see, and no others
import {
  formatId,
  parseId,
  uuidV7,
  type Ack,
  type Author,
  type Frame,
  type InboxFrame,
  type Message,
  type ReadAck,
  type Role,
  type StopAck,
} from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { Inbox } from '../inbox/inbox.ts'
import type { InboxRange } from '../inbox/pages.ts'
import type { InboxUser } from '../inbox/reading.ts'
import type { Clock } from '../lib/clock.ts'
import { mapped } from '../lib/mapped.ts'
import type { Random } from '../lib/random.ts'
import { draftOf } from '../session/draft.ts'
import type { Cursor, FollowListener } from '../session/follow.ts'
import type { Appended, SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import { tenantOf, type Asker, type AskerIn } from './caller.ts'
import { frameFor, inboxItemsFor } from './seen.ts'
import type { SessionKeys } from './session-key.ts'
import { createRewriting, type Rewriting } from './rewriting.ts'
import { messageOf, type Send } from './session-schemas.ts'

/** A frame, and the position after it. */
export type SeenFrame = { readonly frame: Frame; readonly at: Cursor }

export type Operations = Rewriting & {
  readonly send: (asking: AskerIn, sent: Send) => Promise<Ack>
  readonly stop: (asking: AskerIn, stop: { turn: string; epoch: number }) => Promise<StopAck>
  readonly markRead: (asking: AskerIn, read: { seq: number; user?: string | undefined }) => Promise<ReadAck>
  /** The caller may see the session with this key. */
  readonly follow: (
    principal: Principal | null,
    key: SessionKey,
    from: Cursor,
  ) => Promise<(listener: FollowListener) => AsyncGenerator<SeenFrame>>
  readonly followInbox: (
    principal: Principal | null,
    user: InboxUser,
    range: Omit<InboxRange, 'after'>,
  ) => Promise<(listener: FollowListener) => AsyncGenerator<InboxFrame>>
}

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'append' | 'stopTurn' | 'rewrite' | 'markRead' | 'follow'>
  readonly inbox: Pick<Inbox, 'follow'>
  readonly rateLimits: Pick<RateLimits, 'countAppend'>
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

const STALE: StopAck = { stopped: false, seq: null }
const AUTHOR_KINDS: Readonly<Record<Role, Author['kind']>> = {
  user: 'user',
  assistant: 'agent',
  system: 'service',
}

export function createOperations(deps: Deps): Operations {
  const { sessions, inbox, rateLimits, keyOf, explainMissing, clock, random, cell } = deps
  const mintId = () => formatId('message', cell, uuidV7(clock.now(), random.bytes(10)))
  return {
    ...createRewriting(deps),
    send: async ({ principal, part, session }, sent) => {
      const message = messageOf(sent, mintId, part)
      const author = authorOf(principal, message, { part, named: sent.author })
      const key = await keyOf(principal, session)
      rateLimits.countAppend(principal, key.session) // a repeat counts, too: it costs as much
      const appended = await sessions.append({
        ...key,
        draft: draftOf({ ...message, author }),
        ...(sent.ifHead === undefined ? {} : { ifHead: sent.ifHead }),
        asks: message.role === 'user' && sent.reply !== false,
      })
      if (appended.type === 'not-found' || (appended.type === 'gone' && appended.seq === undefined))
        throw await explainMissing(key)
      return ackOf(message.id, appended, cell)
    },
    stop: async ({ principal, part, session }, { turn: id, epoch }) => {
      const turn = parseId('turn', id)
      if (!turn) throw new Rejected('invalid', `${part}.turn: is not the id of a turn`)
      const key = await keyOf(principal, session)
      if (turn.cell !== cell) return STALE
      const stopped = await sessions.stopTurn({ ...key, turn: turn.uuid, epoch })
      if (stopped.type === 'not-found') throw await explainMissing(key)
      return stopped.type === 'stale' ? STALE : { stopped: true, seq: stopped.seq }
    },
    markRead: async (asking, { seq, user: named }) => {
      const key = await keyOf(asking.principal, asking.session)
      const { user } = inboxOf(asking, named)
      const read = await sessions.markRead({ ...key, user, seq })
      if (read.type === 'not-found') throw await explainMissing(key)
      return { read: read.read, unread: read.unread }
    },
    follow: async (principal, key, from) => {
      const following = await sessions.follow(key, from)
      if (!following) throw await explainMissing(key)
      const session = formatId('session', cell, key.session)
      return (listener) =>
        mapped(following(listener), ({ frame, at }) => ({
          frame: { ...frameFor(principal, frame), session },
          at,
        }))
    },
    followInbox: async (principal, user, range) => {
      const following = await inbox.follow(user, range)
      return (listener) =>
        mapped(following(listener), (frame) => ({ ...frame, items: inboxItemsFor(principal, frame.items) }))
    },
  }
}

/** A user sees its own inbox. A key names the user. */
export function inboxOf({ principal, part }: Asker, named: string | undefined): InboxUser {
  const tenant = tenantOf(principal)
  const user = principal?.user
  if (user && named !== undefined && named !== user.id)
    throw new Rejected(
      'forbidden',
      `${part}.user: this token opens only the inbox of ${user.id}. Leave user out, or use an API key`,
    )
  if (user) return { tenant, user: user.id, sessions: user.sessions && [...user.sessions] }
  if (named === undefined)
    throw new Rejected(
      'invalid',
      part === 'frame'
        ? 'frame.user: is missing. A caller with a key names the user'
        : `${part}.user: is missing. Name the user (on the command line: --user ID), or send the user's token`,
    )
  return { tenant, user: named, sessions: undefined }
}

/** A user writes as itself, whatever the body says. A key may write as anybody. */
function authorOf(
  principal: Principal | null,
  { role }: Message,
  { part, named }: { readonly part: string; readonly named: string | undefined },
): Author {
  const user = principal?.user
  if (user && role !== 'user')
    throw new Rejected('forbidden', `${part}.message.role: a user sends messages of the role user`)
  const id = user ? user.id : named
  return { kind: AUTHOR_KINDS[role], ...(id === undefined ? {} : { id }) }
}

function ackOf(id: string, appended: Exclude<Appended, { readonly type: 'not-found' }>, cell: number): Ack {
  switch (appended.type) {
    case 'stored': {
      const { seq, deduped, live, nextEpoch } = appended
      const turn = live && { turn: formatId('turn', cell, live.turn), epoch: live.epoch }
      return { id, seq, deduped, ...turn, ...(nextEpoch !== undefined && { epoch: nextEpoch }) }
    }
    case 'gone':
      throw new Rejected('gone', `The message ${id}, at seq ${appended.seq}, was erased: use a new id.`)
    case 'conflict':
      throw new Rejected('conflict', `The id ${id} is taken by ${holderAt(appended.seq)}: choose another id.`)
    case 'stale': {
      const { head } = appended
      throw new Rejected(
        'stale',
        `The head is ${head}, not the one in ifHead: read what was added, and decide again.`,
        {
          fields: { current: { head } },
        },
      )
    }
  }
}

function holderAt(seq: number | undefined): string {
  return seq === undefined ? 'a reply that is on its way' : `another message, at seq ${seq}`
}
