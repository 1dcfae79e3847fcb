// Finds the session that a request names by id or alias, for a caller that may see it: any session of its tenant for a key; for
// a user, the sessions of which it is a member and, if its token names sessions, only those (S3). All others get the same
// answer as a session that does not exist: identical bytes, except for the request id. Every such answer comes from `notFound`. An erased
// session has no members, so only a key is told that it existed.
import { parseId, SESSION_ALIAS } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import { tenantOf } from './caller.ts'

export type SessionKeys = {
  readonly keyOf: (principal: Principal | null, idOrAlias: string) => Promise<SessionKey>
  /** Why the caller does not get a session: it does not exist, or it was erased. */
  readonly explainMissing: (key: SessionKey) => Promise<Rejected>
  /** Whether the caller may see this session of its tenant. */
  readonly maySee: (principal: Principal | null, key: SessionKey) => Promise<boolean>
}

type Deps = {
  readonly sessions: Pick<Sessions, 'named' | 'isMember' | 'isErased'>
  readonly cell: number
}

export function createSessionKeys({ sessions, cell }: Deps): SessionKeys {
  const uuidOf = async (tenant: number, text: string) => {
    const id = parseId('session', text)
    if (id) return id.cell === cell ? id.uuid : undefined
    return SESSION_ALIAS.test(text) ? sessions.named(tenant, text) : undefined
  }
  const maySee = async (principal: Principal | null, key: SessionKey) => {
    const user = principal?.user
    if (!user) return true
    return user.sessions?.has(key.session) !== false && sessions.isMember(key, user.id)
  }
  return {
    maySee,
    explainMissing: async (key) => ((await sessions.isErased(key)) ? gone() : notFound()),
    keyOf: async (principal, text) => {
      const tenant = tenantOf(principal)
      const session = await uuidOf(tenant, text)
      if (session === undefined || !(await maySee(principal, { tenant, session }))) throw notFound()
      return { tenant, session }
    },
  }
}

export function gone(): Rejected {
  return new Rejected('gone', 'The session was erased.')
}

export function notFound(): Rejected {
  return new Rejected('not_found', 'There is no such session, or it is not yours.')
}
