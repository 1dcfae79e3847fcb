// Routes for the messages of a session: send one, read a page, follow the session.
import { PAGE_LIMITS } from '@fleetline/protocol'
import type { SentEvent } from '../door/events.ts'
import type { Listener } from '../door/stream.ts'
import { route, type Route } from '../door/route.ts'
import { mapped } from '../lib/mapped.ts'
import type { Sessions } from '../session/sessions.ts'
import { READ, SEND } from './caller.ts'
import { formatCursor } from './cursor.ts'
import type { Operations, SeenFrame } from './operations.ts'
import { itemsFor } from './seen.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import {
  ackSchema,
  eventsHeaders,
  eventsQuery,
  frameSchema,
  pageQuery,
  pageSchema,
  sendSchema,
  sessionParams,
} from './session-schemas.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'read'>
  readonly operations: Pick<Operations, 'send' | 'follow'>
}

export function messageRoutes(deps: Deps): Route[] {
  return [sendRoute(deps), pageRoute(deps), eventsRoute(deps)]
}

function sendRoute({ operations }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/messages',
    summary:
      "Appends a message. A message that is sent again with the same id is stored once and keeps its seq. In a session with an agent, a turn replies to a user's message, unless `reply` is false.",
    access: SEND,
    params: sessionParams,
    body: sendSchema,
    answers: {
      200: {
        means:
          'Committed, at this seq. If the message waits for a reply, the answer names the live turn. While the conversation is summarised, it has only the `epoch` of the turn that will start.',
        json: ackSchema,
      },
    },
    handle: async ({ principal, params, body }) => ({
      status: 200,
      body: await operations.send({ principal, part: 'body', session: params.session }, body),
    }),
  })
}

function pageRoute({ sessions, keyOf, explainMissing }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/sessions/:session/messages',
    summary:
      'Reads a page of the log, in order: the messages after `after`, or before `before`; with neither, the last ones. A page of large messages is shorter than `limit`.',
    access: READ,
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

function eventsRoute({ operations, keyOf, maySee }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/sessions/:session/events',
    summary:
      'Follows the session as server-sent events: the messages after `after`, then new ones; also the live turn, the chunks of its reply, and how turns ended (from `epoch` on, if given). To resume without a gap, send the id of the last event as `Last-Event-ID`.',
    access: READ,
    params: sessionParams,
    query: eventsQuery,
    headers: eventsHeaders,
    answers: { 200: { means: 'A stream of frames that does not end by itself.', events: frameSchema } },
    handle: async ({ principal, params, query, headers }) => {
      const { after: seq, epoch } = query
      const from = headers['last-event-id'] ?? { seq, ...(epoch === undefined ? {} : { ended: epoch - 1 }) }
      const key = await keyOf(principal, params.session)
      const following = await operations.follow(principal, key, from)
      const eventOf = ({ frame, at }: SeenFrame): SentEvent => ({ id: formatCursor(at), data: frame })
      const recheck = async () => {
        if (!(await maySee(principal, key))) throw notFound()
      }
      return { status: 200, body: (listener: Listener) => mapped(following(listener), eventOf), recheck }
    },
  })
}
