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
import type { SentEvent, Listener } from '../door/events.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { draftOf } from '../session/draft.ts'
import type { ToldFrame } from '../session/follow.ts'
import type { Appended } from '../session/place.ts'
import type { Sessions } from '../session/sessions.ts'
import { CALLER_ACCESS } from './caller.ts'
import { formatCursor } from './cursor.ts'
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

function sendRoute({ sessions, keyOf, clock, random, cell }: Deps): Route {
  const mintId = () => formatId('message', cell, uuidV7(clock.now(), random.bytes(10)))
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/messages',
    summary:
      "Appends a message. Sent again with the same id, it is there once and the seq is the same. In a session with an agent a turn answers a user's message, unless `reply` is false.",
    access: CALLER_ACCESS,
    params: sessionParams,
    body: sendSchema,
    answers: {
      200: {
        means: 'Committed, at this seq; while it waits for a reply, with the live turn.',
        json: ackSchema,
      },
    },
    handle: async ({ principal, params, body }) => {
      const message = messageOf(body, mintId)
      const appended = await sessions.append({
        ...(await keyOf(principal, params.session)),
        draft: draftOf({ ...message, author: authorOf(message, body.author) }),
        ...(body.ifHead === undefined ? {} : { ifHead: body.ifHead }),
        asks: message.role === 'user' && body.reply !== false,
      })
      return { status: 200, body: ackOf(message.id, appended, cell) }
    },
  })
}

function pageRoute({ sessions, keyOf }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/sessions/:session/messages',
    summary:
      'A page of the log, ascending: what follows `after`, or what stands before `before`; with neither, the last ones. A page of large messages is shorter than `limit`.',
    access: CALLER_ACCESS,
    params: sessionParams,
    query: pageQuery,
    answers: { 200: { means: 'The items, and the head.', json: pageSchema } },
    handle: async ({ principal, params, query }) => {
      const { after, before = PAGE_LIMITS.seq, limit } = query
      const range = after === undefined ? { before, limit } : { after, limit }
      const page = await sessions.read(await keyOf(principal, params.session), range)
      if (!page) throw notFound()
      const { items, head } = page
      return { status: 200, body: { items, head } }
    },
  })
}

function eventsRoute({ sessions, keyOf, cell }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/sessions/:session/events',
    summary:
      'Follows the session as server-sent events: what is stored behind `after`, then what comes; at the head, the live turn and the chunks of its reply, and how turns ended, from `epoch` on if that is given. The id of an event is where to go on: sent back as `Last-Event-ID`, nothing is missed.',
    access: CALLER_ACCESS,
    params: sessionParams,
    query: eventsQuery,
    headers: eventsHeaders,
    answers: { 200: { means: 'A stream of frames; it has no end of its own.', events: frameSchema } },
    handle: async ({ principal, params, query, headers }) => {
      const { after: seq, epoch } = query
      const from = headers['last-event-id'] ?? { seq, ...(epoch === undefined ? {} : { ended: epoch - 1 }) }
      const key = await keyOf(principal, params.session)
      const following = await sessions.follow(key, from)
      if (!following) throw notFound()
      const session = formatId('session', cell, key.session)
      const eventOf = ({ frame, at }: ToldFrame): SentEvent => {
        const data = { ...frame, session }
        return { id: formatCursor(at), data }
      }
      return { status: 200, body: (listener: Listener) => mapped(following(listener), eventOf) }
    },
  })
}

async function* mapped<In, Out>(source: AsyncIterable<In>, change: (one: In) => Out): AsyncGenerator<Out> {
  for await (const one of source) yield change(one)
}

function authorOf({ role }: Message, id: string | undefined): Author {
  return { kind: AUTHOR_KINDS[role], ...(id === undefined ? {} : { id }) }
}

function ackOf(id: string, appended: Appended, cell: number): Ack {
  switch (appended.type) {
    case 'stored': {
      const { seq, deduped, live } = appended
      const turn = live && { turn: formatId('turn', cell, live.turn), epoch: live.epoch }
      return { id, seq, deduped, ...turn }
    }
    case 'not-found':
      throw notFound()
    case 'conflict':
      throw new Rejected('conflict', `The id ${id} is taken by ${holderAt(appended.seq)}.`)
    case 'stale': {
      const { head } = appended
      throw new Rejected('stale', `The head is ${head}, not the one in ifHead.`, {
        fields: { current: { head } },
      })
    }
  }
}

function holderAt(seq: number | undefined): string {
  return seq === undefined ? 'a reply that is on its way' : `another message, at seq ${seq}`
}
