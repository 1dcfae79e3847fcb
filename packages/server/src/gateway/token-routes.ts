// Routes for tokens of users: mint one, revoke those of a user.
import { route, type Route } from '../door/route.ts'
import { actorOf } from '../identity/actor.ts'
import type { Cuts } from '../identity/cuts.ts'
import type { Tenants } from '../identity/tenants.ts'
import type { Tokens } from '../identity/tokens.ts'
import { SKEW_SECONDS } from '../identity/verify.ts'
import type { Sessions } from '../session/sessions.ts'
import { accessWith, tenantOf } from './caller.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import { newTokenSchema, revokedSchema, revokeSchema, tokenSchema } from './token-schemas.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'find'>
  readonly tokens: Pick<Tokens, 'mint'>
  readonly cuts: Pick<Cuts, 'cut'>
  readonly tenants: Pick<Tenants, 'nameOf'>
}

const access = accessWith('tokens:mint')

export function tokenRoutes({ sessions, tokens, cuts, tenants, keyOf }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/tokens',
      summary: `Mints a token for a user. With it, a browser reads and writes the sessions of which the user is a member. It ends after 10 minutes at most, or with the key that has minted it. Pods accept it for ${SKEW_SECONDS} more seconds, because clocks differ.`,
      access,
      body: newTokenSchema,
      answers: {
        201: {
          means: 'Minted. The token is not stored; the audit log says who has minted it, and for whom.',
          json: tokenSchema,
        },
      },
      handle: async ({ principal, address, body: { user, sessions: named, rights, seconds } }) => {
        const found: string[] = []
        for (const name of named ?? []) {
          const key = await keyOf(principal, name)
          if (!(await sessions.find(key))) throw notFound()
          found.push(key.session)
        }
        const number = tenantOf(principal)
        const owner = { number, tenant: await tenants.nameOf(number), key: principal?.key ?? null }
        const minter = { ...owner, actor: actorOf(principal, address) }
        const wanted = { user, rights, seconds, ...(named && { sessions: found }) }
        const { token, expiresAt } = await tokens.mint(minter, wanted)
        return { status: 201, body: { token, user, expiresAt: expiresAt.toISOString() } }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/tokens/revoke',
      summary:
        'Revokes all tokens that a user has now. Every pod rejects them and ends their streams within 5 seconds. Tokens that are minted later are valid.',
      access,
      body: revokeSchema,
      answers: { 200: { means: 'Revoked.', json: revokedSchema } },
      handle: async ({ principal, address, body: { user } }) => {
        const at = await cuts.cut(tenantOf(principal), user, actorOf(principal, address))
        return { status: 200, body: { user, revokedAt: at.toISOString() } }
      },
    }),
  ]
}
