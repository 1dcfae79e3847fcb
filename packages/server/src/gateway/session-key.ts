// Which session a request means, and in whose name. A session that is not the caller's is answered as one that does not
// exist, byte for byte but for the request id: by `notFound` alone.
import { parseId } from '@fleetline/protocol'
import type { Principal } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { SessionKey } from '../session/place.ts'
import type { TenantOf } from './caller.ts'

export type SessionKeys = {
  /** Of an id that a session of this cell may have. */
  readonly uuidOf: (id: string) => string | undefined
  readonly keyOf: (principal: Principal | null, id: string) => Promise<SessionKey>
}

type Deps = { readonly tenantOf: TenantOf; readonly cell: number }

export function createSessionKeys({ tenantOf, cell }: Deps): SessionKeys {
  const uuidOf = (text: string) => {
    const id = parseId('session', text)
    return id?.cell === cell ? id.uuid : undefined
  }
  return {
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
