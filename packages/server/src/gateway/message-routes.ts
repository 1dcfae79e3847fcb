// Routes for the messages of a session: send one, read a page, follow the session.
import {
  formatId,
  PAGE_LIMITS,
  uuidV7,
  type Ack,
  type Author,
  type Message,
  type Role,
} from '@fleetline/protocol'
import type { SentEvent } from '../door/events.ts'
import type { Listener } from '../door/stream.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { Clock } from '../lib/clock.ts'
import { mapped } from '../lib/mapped.ts'
import type { Random } from '../lib/random.ts'
import { draftOf } from '../session/draft.ts'
import type { ToldFrame } from '../session/follow.ts'
import type { Appended } from '../session/place.ts'
import type { Sessions } from '../session/sessions.ts'
import { openToUsers } from './caller.ts'
import { formatCursor } from './cursor.ts'
import { frameFor, itemsFor } from './seen.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import {
  ackSchema,
  eventsHeaders,
  eventsQuery,
  frameSchema,
  messageOf,
  pageQuery,
  pageSchema,
  sendSchema,
  sessionParams,
} from './session-schemas.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'append' | 'read' | 'follow'>
  readonly rateLimits: Pick<RateLimits, 'countAppend'>
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

const AUTHOR_KINDS: Readonly<Record<Role, Author['kind']>> = {
  user: 'user',
  assistant: 'agent',
  system: 'service',
}

export function messageRoutes(deps: Deps): Route[] {
  return [sendRoute(deps), pageRoute(deps), eventsRoute(deps)]
}

function sendRoute({ sessions, rateLimits, keyOf, explainMissing, clock, random, cell }: Deps): Route {
  const mintId = () => formatId('message', cell, uuidV7(clock.now(), random.bytes(10)))
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/messages',
    summary:
      "Appends a message. A message that is sent again with the same id is stored once and keeps its seq. In a session with an agent, a turn replies to a user's message, unless `reply` is false.",
    access: openToUsers('sessions:write', 'send'),
    params: sessionParams,
    body: sendSchema,
    answers: {
      200: {
        means:
          'Committed, at this seq. If the message waits for a reply, the answer names the live turn. While the conversation is summarised, it has only the `epoch` of the turn that will start.',
        json: ackSchema,
      },
    },
    handle: async ({ principal, params, body }) => {
      const message = messageOf(body, mintId)
      const author = authorOf(principal, message, body.author)
      const key = await keyOf(principal, params.session)
      rateLimits.countAppend(principal, key.session) // a repeat counts, too: it costs as much
      const appended = await sessions.append({
        ...key,
        draft: draftOf({ ...message, author }),
        ...(body.ifHead === undefined ? {} : { ifHead: body.ifHead }),
        asks: message.role === 'user' && body.reply !== false,
      })
      if (appended.type === 'not-found' || (appended.type === 'gone' && appended.seq === undefined))
        throw await explainMissing(key)
      return { status: 200, body: ackOf(message.id, appended, cell) }
    },
  })
}

function pageRoute({ sessions, keyOf, explainMissing }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/sessions/:session/messages',
    summary:
      'Reads a page of the log, in order: the messages after `after`, or before `before`; with neither, the last ones. A page of large messages is shorter than `limit`.',
    access: openToUsers('sessions:read', 'read'),
    params: sessionParams,
    query: pageQuery,
    answers: { 200: { means: 'The messages, and the last seq of the session.', json: pageSchema } },
    handle: async ({ principal, params, query }) => {
      const { after, before = PAGE_LIMITS.seq, limit } = query
      const range = after === undefined ? { before, limit } : { after, limit }
      const key = await keyOf(principal, params.session)
      const page = await sessions.read(key, range)
      if (!page) throw await explainMissing(key)
      const { items, head } = page
      return { status: 200, body: { items: itemsFor(principal, items), head } }
    },
  })
}

function eventsRoute({ sessions, keyOf, maySee, explainMissing, cell }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/sessions/:session/events',
    summary:
      'Follows the session as server-sent events: the messages after `after`, then new ones; also the live turn, the chunks of its reply, and how turns ended (from `epoch` on, if given). To resume without a gap, send the id of the last event as `Last-Event-ID`.',
    access: openToUsers('sessions:read', 'read'),
    params: sessionParams,
    query: eventsQuery,
    headers: eventsHeaders,
    answers: { 200: { means: 'A stream of frames that does not end by itself.', events: frameSchema } },
    handle: async ({ principal, params, query, headers }) => {
      const { after: seq, epoch } = query
      const from = headers['last-event-id'] ?? { seq, ...(epoch === undefined ? {} : { ended: epoch - 1 }) }
      const key = await keyOf(principal, params.session)
      const following = await sessions.follow(key, from)
      if (!following) throw await explainMissing(key)
      const session = formatId('session', cell, key.session)
      const eventOf = ({ frame, at }: ToldFrame): SentEvent => {
        const data = { ...frameFor(principal, frame), session }
        return { id: formatCursor(at), data }
      }
      const recheck = async () => {
        if (!(await maySee(principal, key))) throw notFound()
      }
      return { status: 200, body: (listener: Listener) => mapped(following(listener), eventOf), recheck }
    },
  })
}

/** A user writes as itself, whatever the body says. A key may write as anybody. */
function authorOf(principal: Principal | null, { role }: Message, named: string | undefined): Author {
  const user = principal?.user
  if (user && role !== 'user')
    throw new Rejected('forbidden', 'body.message.role: a user sends messages of the role user')
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
