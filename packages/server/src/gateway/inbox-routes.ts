// Routes for the inbox of a user: a page of it, its changes as events, and how far the user has read.
import type { InboxFrame } from '@fleetline/protocol'
import type { SentEvent } from '../door/events.ts'
import type { Listener } from '../door/stream.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { Inbox } from '../inbox/inbox.ts'
import type { InboxUser } from '../inbox/reading.ts'
import { mapped } from '../lib/mapped.ts'
import type { Sessions } from '../session/sessions.ts'
import { openToUsers, tenantOf } from './caller.ts'
import {
  inboxEventsQuery,
  inboxFrameSchema,
  inboxQuery,
  inboxSchema,
  readAckSchema,
  readSchema,
} from './inbox-schemas.ts'
import { inboxItemsFor } from './seen.ts'
import type { SessionKeys } from './session-key.ts'
import { sessionParams } from './session-schemas.ts'

type Deps = SessionKeys & {
  readonly inbox: Pick<Inbox, 'list' | 'follow'>
  readonly sessions: Pick<Sessions, 'markRead'>
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
    access: openToUsers('sessions:read', 'read'),
    query: inboxQuery,
    answers: {
      200: { means: 'At most `limit` sessions. `next` is null on the last page.', json: inboxSchema },
    },
    handle: async ({ principal, query: { show, cursor, limit, user } }) => {
      const page = await inbox.list(inboxOf(principal, user), { show, after: cursor, limit })
      return { status: 200, body: { ...page, items: inboxItemsFor(principal, page.items) } }
    },
  })
}

function eventsRoute({ inbox }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/inbox/events',
    summary:
      'Follows the inbox of a user as server-sent events: first a page (`reset`), then the new state of each session that changes. A reader that reconnects gets the page again.',
    access: openToUsers('sessions:read', 'read'),
    query: inboxEventsQuery,
    answers: {
      200: {
        means: 'A stream of frames. If it ends, open it again; it then begins with the first page.',
        events: inboxFrameSchema,
      },
    },
    handle: async ({ principal, query: { show, limit, user } }) => {
      const following = await inbox.follow(inboxOf(principal, user), { show, limit })
      const eventOf = (frame: InboxFrame): SentEvent => {
        const data = { ...frame, items: inboxItemsFor(principal, frame.items) }
        return { id: String(frame.revision), data }
      }
      return { status: 200, body: (listener: Listener) => mapped(following(listener), eventOf) }
    },
  })
}

function readRoute({ sessions, keyOf, explainMissing }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/read',
    summary:
      "Moves the user's read position: the seq of the last message that the user has read. It never moves back, and never past the last message. The request may be repeated. At the last message, it also marks a failed turn as seen.",
    access: openToUsers('sessions:write', 'read'),
    params: sessionParams,
    body: readSchema,
    answers: { 200: { means: 'Committed: where the read position is now.', json: readAckSchema } },
    handle: async ({ principal, params, body: { seq, user: named } }) => {
      const key = await keyOf(principal, params.session)
      const { user } = inboxOf(principal, named, 'body')
      const read = await sessions.markRead({ ...key, user, seq })
      if (read.type === 'not-found') throw await explainMissing(key)
      return { status: 200, body: { read: read.read, unread: read.unread } }
    },
  })
}

/** A user sees its own inbox. A key names the user. */
function inboxOf(principal: Principal | null, named: string | undefined, part = 'query'): InboxUser {
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
      `${part}.user: is missing. Name the user (on the command line: --user ID), or send the user's token`,
    )
  return { tenant, user: named, sessions: undefined }
}
