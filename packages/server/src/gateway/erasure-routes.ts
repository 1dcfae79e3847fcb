// Routes that erase messages, sessions and users, and show what was erased.
import type { Erasures } from '../erasure/erasures.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import { actorOf } from '../identity/actor.ts'
import { accessWith, tenantOf } from './caller.ts'
import {
  erasureParams,
  erasureSchema,
  erasuresQuery,
  erasuresSchema,
  messageParams,
  userParams,
} from './erasure-schemas.ts'
import type { SessionKeys } from './session-key.ts'
import { sessionParams } from './session-schemas.ts'

type Deps = SessionKeys & { readonly erasures: Erasures }

const RECEIPT = { json: erasureSchema }

export function erasureRoutes(deps: Deps): Route[] {
  return [messageRoute(deps), sessionRoute(deps), userRoute(deps), ...readRoutes(deps)]
}

function messageRoute({ erasures, keyOf, explainMissing }: Deps): Route {
  return route({
    method: 'DELETE',
    path: '/v1/sessions/:session/messages/:message',
    summary:
      'Erases a message: its parts, its metadata, and the id of its author. Its seq stays, so that the log has no gap, and followers are told. A repeated request gets the same receipt.',
    access: accessWith('sessions:erase'),
    params: messageParams,
    answers: { 200: { means: 'Erased, with a receipt that says what remains where.', ...RECEIPT } },
    handle: async ({ principal, address, params: { session, message } }) => {
      const key = await keyOf(principal, session)
      const receipt = await erasures.eraseMessage(key, message, actorOf(principal, address))
      if (receipt) return { status: 200, body: receipt }
      const why = await explainMissing(key)
      throw why.code === 'gone'
        ? why
        : new Rejected('not_found', `There is no message ${message} in this session.`)
    },
  })
}

function sessionRoute({ erasures, keyOf, explainMissing }: Deps): Route {
  return route({
    method: 'DELETE',
    path: '/v1/sessions/:session',
    summary:
      'Erases a session with all its messages. After the response, no request reads it or writes into it, and a live turn ends as `gone`. Fleetline then removes the content; the receipt says when that is done. A repeated request by id gets the same receipt.',
    access: accessWith('sessions:erase'),
    params: sessionParams,
    answers: { 202: { means: 'Committed. The receipt is `done` when everything is removed.', ...RECEIPT } },
    handle: async ({ principal, address, params }) => {
      const key = await keyOf(principal, params.session)
      const receipt = await erasures.eraseSession(key, actorOf(principal, address))
      if (!receipt) throw await explainMissing(key)
      return { status: 202, body: receipt }
    },
  })
}

function userRoute({ erasures }: Deps): Route {
  return route({
    method: 'DELETE',
    path: '/v1/users/:user',
    summary:
      'Erases a user: the sessions whose only member is this user, and its messages and membership in all others. The response means that the request is stored and the tokens are revoked; until the receipt is `done`, callers with a key and other members can still read what Fleetline has not found yet. A repeated request gets the same receipt until Fleetline has searched all messages, and revokes newer tokens.',
    access: accessWith('sessions:erase'),
    params: userParams,
    answers: { 202: { means: 'Committed. The receipt is `done` when everything is removed.', ...RECEIPT } },
    handle: async ({ principal, address, params: { user } }) => {
      const tenant = tenantOf(principal)
      return { status: 202, body: await erasures.eraseUser(tenant, user, actorOf(principal, address)) }
    },
  })
}

function readRoutes({ erasures }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/erasures',
      summary: 'Lists receipts of erasures, the newest first; with `before`, those before that erasure.',
      access: accessWith('sessions:erase'),
      query: erasuresQuery,
      answers: {
        200: { means: 'At most `limit` receipts. A shorter list is the last page.', json: erasuresSchema },
      },
      handle: async ({ principal, query: { before, limit } }) => {
        const range = { limit, ...(before === undefined ? {} : { before }) }
        return { status: 200, body: { erasures: await erasures.list(tenantOf(principal), range) } }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/erasures/:erasure',
      summary: 'Shows the receipt of an erasure.',
      access: accessWith('sessions:erase'),
      params: erasureParams,
      answers: { 200: { means: 'What was erased, and what remains where.', ...RECEIPT } },
      handle: async ({ principal, params }) => {
        const found = await erasures.find(tenantOf(principal), params.erasure)
        if (!found)
          throw new Rejected(
            'not_found',
            `There is no erasure ${params.erasure} in this tenant. List them: \`fleetline erasures ls\`.`,
          )
        return { status: 200, body: found }
      },
    }),
  ]
}
