// Sessions over HTTP. A session that is not the caller's is answered as one that does not exist, byte for byte but for
// the request id: by `notFound` alone.
import { formatId, parseId, uuidV7, type Ack, type Author, type Role } from '@fleetline/protocol'
import { route, type Principal, type Route } from '../door/route.ts'
import { Bug, Rejected } from '../errors.ts'
import type { Tenants } from '../identity/tenants.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { draftOf } from '../session/draft.ts'
import type { Appended, SessionKey } from '../session/place.ts'
import type { Sessions } from '../session/sessions.ts'
import {
  ackSchema,
  messageOf,
  newSessionSchema,
  sendSchema,
  sessionParams,
  sessionSchema,
} from './session-schemas.ts'

export type SessionDeps = {
  readonly sessions: Pick<Sessions, 'create' | 'find' | 'append'>
  readonly tenants: Tenants
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

const ACCESS = { audience: 'key', tenant: 'caller' } as const
const AUTHOR_KINDS: Readonly<Record<Role, Author['kind']>> = {
  user: 'user',
  assistant: 'agent',
  system: 'service',
}

export function sessionRoutes(deps: SessionDeps): Route[] {
  const { sessions, tenants, clock, random, cell } = deps
  const tenantOf = (principal: Principal | null): Promise<number> => {
    if (!principal) throw new Bug('A route of sessions has no tenant')
    return tenants.numberOf(principal.tenant)
  }
  const keyOf = async (principal: Principal | null, text: string): Promise<SessionKey> => {
    const id = parseId('session', text)
    if (id?.cell !== cell) throw notFound()
    return { tenant: await tenantOf(principal), session: id.uuid }
  }
  const mintId = () => formatId('message', cell, uuidV7(clock.now(), random.bytes(10)))
  return [
    route({
      method: 'POST',
      path: '/v1/sessions',
      summary: 'Makes a session.',
      access: ACCESS,
      body: newSessionSchema,
      answers: { 201: { means: 'Made.', json: sessionSchema } },
      handle: async ({ principal, body }) => {
        return { status: 201, body: await sessions.create(await tenantOf(principal), body) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions/:session',
      summary: 'One session.',
      access: ACCESS,
      params: sessionParams,
      answers: { 200: { means: 'It is here.', json: sessionSchema } },
      handle: async ({ principal, params }) => {
        const found = await sessions.find(await keyOf(principal, params.session))
        if (!found) throw notFound()
        return { status: 200, body: found }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/sessions/:session/messages',
      summary: 'Appends a message. Sent again with the same id, it is there once and the answer is the same.',
      access: ACCESS,
      params: sessionParams,
      body: sendSchema,
      answers: { 200: { means: 'Committed, at this seq.', json: ackSchema } },
      handle: async ({ principal, params, body }) => {
        const message = messageOf(body, mintId)
        const author = {
          kind: AUTHOR_KINDS[message.role],
          ...(body.author === undefined ? {} : { id: body.author }),
        }
        const appended = await sessions.append({
          ...(await keyOf(principal, params.session)),
          draft: draftOf({ ...message, author }),
          ...(body.ifHead === undefined ? {} : { ifHead: body.ifHead }),
        })
        return { status: 200, body: ackOf(message.id, appended) }
      },
    }),
  ]
}

function ackOf(id: string, appended: Appended): Ack {
  switch (appended.type) {
    case 'stored':
      return { id, seq: appended.seq, deduped: appended.deduped }
    case 'not-found':
      throw notFound()
    case 'conflict':
      throw new Rejected('conflict', `The id ${id} is taken, at seq ${appended.seq}, by another message.`)
    case 'stale': {
      const { head } = appended
      throw new Rejected('stale', `The head is ${head}, not the one in ifHead.`, {
        fields: { current: { head } },
      })
    }
  }
}

function notFound(): Rejected {
  return new Rejected('not_found', 'There is no such session, or it is not yours.')
}
