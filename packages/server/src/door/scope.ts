// Whether a caller may use a route or a command of a socket, by what the caller's key or token allows.
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import { USUAL_RIGHTS } from '../identity/scopes.ts'
import type { KnownAccess } from './route.ts'

/** Undefined if the caller may. */
export function outOfScope(principal: Principal, access: KnownAccess): Rejected | undefined {
  const lack = lackOf(principal, access)
  const reason = principal.user ? 'right' : 'scope'
  return lack === undefined ? undefined : new Rejected('forbidden', lack, { fields: { reason } })
}

/** Says what the caller lacks. */
function lackOf({ key, scopes, user }: Principal, access: KnownAccess): string | undefined {
  if (!user) {
    if (scopes.has(access.scope)) return undefined
    if (key === null) return `Without a key you may not do this. Use a key that has the scope ${access.scope}`
    return `The key ${key} does not have the scope ${access.scope}. Use a key that has it`
  }
  if (access.audience !== 'client') return 'A user may not do this. Use an API key, from your back end'
  if (user.rights.has(access.right)) return undefined
  const lacks = `The token does not have the right ${access.right}`
  if (!user.issuer) return `${lacks}. Mint one that has it`
  return `${lacks}. Tokens of the issuer ${user.issuer.name} have ${USUAL_RIGHTS.join(', ')}. Do this with an API key, from your back end`
}
