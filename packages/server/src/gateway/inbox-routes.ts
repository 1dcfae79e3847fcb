// Routes for the inbox of a user: a page of it, its changes as events, and how far the user has read.
import type { InboxFrame } from '@fleetline/protocol'
import type { Listener, SentEvent } from '../door/events.ts'
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
import { notFound, type SessionKeys } from './session-key.ts'
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
      'Lists the sessions of which a user is a member, the newest first; with `show=attention`, those that need attention, by what they need. With unread counts, a preview of the last message, and totals over the newest 1,000 sessions.',
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
      'Follows the inbox of a user as server-sent events: first the newest sessions (`reset`), then each session as it is after a change. A reader that reconnects gets the newest sessions again.',
    access: openToUsers('sessions:read', 'read'),
    query: inboxEventsQuery,
    answers: {
      200: { means: 'A stream of frames that does not end by itself.', events: inboxFrameSchema },
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

function readRoute({ sessions, keyOf }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/read',
    summary:
      'Says how far a user has read. The cursor of the user never goes back, and not beyond the last message. A repeated request changes nothing.',
    access: openToUsers('sessions:write', 'read'),
    params: sessionParams,
    body: readSchema,
    answers: { 200: { means: 'Committed: where the cursor is now.', json: readAckSchema } },
    handle: async ({ principal, params, body: { seq, user: named } }) => {
      const key = await keyOf(principal, params.session)
      const { user } = inboxOf(principal, named, 'body')
      const read = await sessions.markRead({ ...key, user, seq })
      if (read.type === 'not-found') throw notFound()
      return { status: 200, body: { read: read.read, unread: read.unread } }
    },
  })
}

/** A user sees its own inbox. A key names the user. */
function inboxOf(principal: Principal | null, named: string | undefined, part = 'query'): InboxUser {
  const tenant = tenantOf(principal)
  const user = principal?.user
  if (user && named !== undefined && named !== user.id)
    throw new Rejected('forbidden', `${part}.user: a user has its own inbox, and no other`)
  if (user) return { tenant, user: user.id, sessions: user.sessions && [...user.sessions] }
  if (named === undefined)
    throw new Rejected('invalid', `${part}.user: name the user, or send the request with the user's token`)
  return { tenant, user: named, sessions: undefined }
}
