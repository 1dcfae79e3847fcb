// Finds the session that a request names by id or alias, and the caller's tenant. A session of another tenant gets the same
// answer as one that does not exist: identical bytes, except for the request id. Every such answer comes from `notFound`.
import { parseId, SESSION_ALIAS } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { SessionKey } from '../session/place.ts'
import type { Sessions } from '../session/sessions.ts'
import { tenantOf } from './caller.ts'

export type SessionKeys = {
  readonly keyOf: (principal: Principal | null, idOrAlias: string) => Promise<SessionKey>
}

type Deps = {
  readonly sessions: Pick<Sessions, 'named'>
  readonly cell: number
}

export function createSessionKeys({ sessions, cell }: Deps): SessionKeys {
  const uuidOf = async (tenant: number, text: string) => {
    const id = parseId('session', text)
    if (id) return id.cell === cell ? id.uuid : undefined
    return SESSION_ALIAS.test(text) ? sessions.named(tenant, text) : undefined
  }
  return {
    keyOf: async (principal, text) => {
      const tenant = tenantOf(principal)
      const session = await uuidOf(tenant, text)
      if (session === undefined) throw notFound()
      return { tenant, session }
    },
  }
}

export function notFound(): Rejected {
  return new Rejected('not_found', 'There is no such session, or it is not yours.')
}
