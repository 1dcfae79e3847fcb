// Routes for the inbox of a user: a page of it, its changes as events, and how far the user has read.
import type { InboxFrame } from '@fleetline/protocol'
import type { SentEvent } from '../door/events.ts'
import type { Listener } from '../door/stream.ts'
import { route, type Route } from '../door/route.ts'
import type { Inbox } from '../inbox/inbox.ts'
import { mapped } from '../lib/mapped.ts'
import { MARK_READ, READ } from './caller.ts'
import {
  inboxEventsQuery,
  inboxFrameSchema,
  inboxQuery,
  inboxSchema,
  readAckSchema,
  readSchema,
} from './inbox-schemas.ts'
import { inboxOf, type Operations } from './operations.ts'
import { inboxItemsFor } from './seen.ts'
import { sessionParams } from './session-schemas.ts'

type Deps = {
  readonly inbox: Pick<Inbox, 'list'>
  readonly operations: Pick<Operations, 'followInbox' | 'markRead'>
}

export function inboxRoutes(deps: Deps): Route[] {
  return [listRoute(deps), eventsRoute(deps), readRoute(deps)]
}

function listRoute({ inbox }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/inbox',
    summary:
      'Lists the sessions that a user is a member of, the newest first. Each item has the number of unread messages and a preview of the last message. `show=attention` lists only sessions that need attention: failed, then working, then finished. The totals count the newest 1,000 sessions that are not archived.',
    access: READ,
    query: inboxQuery,
    answers: {
      200: { means: 'At most `limit` sessions. `next` is null on the last page.', json: inboxSchema },
    },
    handle: async ({ principal, query: { show, cursor, limit, user } }) => {
      const page = await inbox.list(inboxOf({ principal, part: 'query' }, user), {
        show,
        after: cursor,
        limit,
      })
      return { status: 200, body: { ...page, items: inboxItemsFor(principal, page.items) } }
    },
  })
}

function eventsRoute({ operations }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/inbox/events',
    summary:
      'Follows the inbox of a user as server-sent events: first a page (`reset`), then the new state of each session that changes. A reader that reconnects gets the page again.',
    access: READ,
    query: inboxEventsQuery,
    answers: {
      200: {
        means: 'A stream of frames. If it ends, open it again; it then begins with the first page.',
        events: inboxFrameSchema,
      },
    },
    handle: async ({ principal, query: { show, limit, user } }) => {
      const mine = inboxOf({ principal, part: 'query' }, user)
      const following = await operations.followInbox(principal, mine, { show, limit })
      const eventOf = (frame: InboxFrame): SentEvent => ({ id: String(frame.revision), data: frame })
      return { status: 200, body: (listener: Listener) => mapped(following(listener), eventOf) }
    },
  })
}

function readRoute({ operations }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/read',
    summary:
      "Moves the user's read position: the seq of the last message that the user has read. It never moves back, and never past the last message. The request may be repeated. At the last message, it also marks a failed turn as seen.",
    access: MARK_READ,
    params: sessionParams,
    body: readSchema,
    answers: { 200: { means: 'Committed: where the read position is now.', json: readAckSchema } },
    handle: async ({ principal, params, body }) => ({
      status: 200,
      body: await operations.markRead({ principal, part: 'body', session: params.session }, body),
    }),
  })
}
