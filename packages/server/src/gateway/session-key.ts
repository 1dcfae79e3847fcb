// Which session a request means, and in whose name. A session that is not the caller's is answered as one that does not
// exist, byte for byte but for the request id: by `notFound` alone.
import { parseId } from '@fleetline/protocol'
import type { Access, Principal } from '../door/route.ts'
import { Bug, Rejected } from '../errors.ts'
import type { Tenants } from '../identity/tenants.ts'
import type { SessionKey } from '../session/place.ts'

export const SESSION_ACCESS = { audience: 'key', tenant: 'caller' } as const satisfies Access

export type SessionKeys = {
  readonly tenantOf: (principal: Principal | null) => Promise<number>
  /** Of an id that a session of this cell may have. */
  readonly uuidOf: (id: string) => string | undefined
  readonly keyOf: (principal: Principal | null, id: string) => Promise<SessionKey>
}

type Deps = { readonly tenants: Tenants; readonly cell: number }

export function createSessionKeys({ tenants, cell }: Deps): SessionKeys {
  const tenantOf = (principal: Principal | null) => {
    if (!principal) throw new Bug('A route of sessions has no tenant')
    return tenants.numberOf(principal.tenant)
  }
  const uuidOf = (text: string) => {
    const id = parseId('session', text)
    return id?.cell === cell ? id.uuid : undefined
  }
  return {
    tenantOf,
    uuidOf,
    keyOf: async (principal, text) => {
      const session = uuidOf(text)
      if (session === undefined) throw notFound()
      return { tenant: await tenantOf(principal), session }
    },
  }
}

export function notFound(): Rejected {
  return new Rejected('not_found', 'There is no such session, or it is not yours.')
}
