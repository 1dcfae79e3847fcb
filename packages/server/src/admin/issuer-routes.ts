// Routes for issuers of others, whose tokens are accepted.
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import { actorOf } from '../identity/actor.ts'
import { ISSUER_LIMITS } from '../identity/issuer-limits.ts'
import type { Issuers } from '../identity/issuers.ts'
import { READ, WRITE } from './access.ts'
import {
  issuerParams,
  issuerSchema,
  issuersSchema,
  newIssuerSchema,
  removedIssuerSchema,
} from './issuer-schemas.ts'

type Deps = { readonly issuers: Pick<Issuers, 'add' | 'list' | 'remove'> }

export function issuerRoutes({ issuers }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/issuers',
      summary:
        'Adds an issuer whose tokens are accepted for users of one tenant. They may read, send and stop in sessions of which they are members.',
      access: WRITE,
      body: newIssuerSchema,
      answers: {
        200: { means: 'There is this issuer already.', json: issuerSchema },
        201: { means: 'Added.', json: issuerSchema },
      },
      handle: async ({ principal, address, body }) => {
        const { isNew, ...issuer } = await issuers.add(body, actorOf(principal, address))
        return { status: isNew ? 201 : 200, body: issuer }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/issuers',
      summary: 'Lists the issuers, in the order of their names.',
      access: READ,
      answers: { 200: { means: `All issuers, at most ${ISSUER_LIMITS.issuers}.`, json: issuersSchema } },
      handle: async () => ({ status: 200, body: { issuers: await issuers.list() } }),
    }),
    route({
      method: 'DELETE',
      path: '/v1/issuers/:issuer',
      summary: 'Removes an issuer. Every pod rejects its tokens and ends their streams within 5 seconds.',
      access: WRITE,
      params: issuerParams,
      answers: { 200: { means: 'Removed.', json: removedIssuerSchema } },
      handle: async ({ principal, address, params: { issuer: name } }) => {
        const isRemoved = await issuers.remove(name, actorOf(principal, address))
        if (!isRemoved) throw new Rejected('not_found', 'There is no such issuer.')
        return { status: 200, body: { name } }
      },
    }),
  ]
}
