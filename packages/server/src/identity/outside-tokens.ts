// Reads tokens of issuers of others. Guarantees:
//   S7  a token is accepted only with the issuer, audience, algorithms and age of one configured issuer, and a key of its key set.
//       The token chooses which configured issuer it is checked against, and nothing else: no URL, no tenant
// Keys are fetched when they are needed, kept for 10 minutes, and fetched again if a token names an unknown one, at most every 30 s.
// If they cannot be fetched, the caller gets 503, and the next fetch is 5 s later.
import { createRemoteJWKSet, decodeJwt, errors, type JWTPayload } from 'jose'
import { SESSION_LIMITS } from '@fleetline/protocol'
import { Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Issuers, StoredIssuer } from './issuers.ts'
import type { TokenUser } from './principal.ts'
import { USUAL_RIGHTS } from './scopes.ts'
import { TOKEN_ISSUER } from './tokens.ts'
import { createVerifier, refusedToken, SKEW_SECONDS, type TokenRule } from './verify.ts'

/** What a valid token of an issuer of others says. */
export type OutsideFacts = { readonly tenant: number; readonly user: TokenUser }
export type OutsideTokens = {
  /** Throws if the token is not valid now, or is of an issuer that is not configured. */
  read(token: string): Promise<OutsideFacts>
}
type Deps = { readonly issuers: Pick<Issuers, 'recent'>; readonly clock: Clock }
type Verify = ReturnType<typeof createVerifier>

const RIGHTS: TokenUser['rights'] = new Set(USUAL_RIGHTS)
const PAUSE_MS = 5_000
const FETCHING = { timeoutDuration: 5_000, cooldownDuration: 30_000, cacheMaxAge: 600_000 }

/** Whether a token says that it is not one of ours. */
export function isFromOutside(token: string): boolean {
  return claimsOf(token).iss !== TOKEN_ISSUER
}

export function createOutsideTokens({ issuers, clock }: Deps): OutsideTokens {
  const verifiers = new Map<number, Verify>()
  const verifierOf = (issuer: StoredIssuer) => {
    const known = verifiers.get(issuer.id)
    if (known) return known
    const verify = createVerifier({ ...issuer, keyOf: keysOf(issuer, clock) }, clock)
    verifiers.set(issuer.id, verify)
    return verify
  }
  return {
    read: async (token) => {
      const all = await issuers.recent()
      verifiers.forEach((_, id) => all.has(id) || verifiers.delete(id))
      const { iss, aud = [] } = claimsOf(token)
      const named = [...all.values()].filter(
        ({ issuer, audience }) => issuer === iss && [aud].flat().includes(audience),
      )
      const [issuer] = named
      if (!issuer || named.length > 1) throw refusedToken('audience')
      return verifierOf(issuer)(token, (claims) => factsOf(issuer, claims))
    },
  }
}

function factsOf(
  { id, name, tenant, maxAgeSeconds }: StoredIssuer,
  { sub = '', iat = 0, exp = 0 }: JWTPayload,
): OutsideFacts {
  if (!isUserId(sub)) throw refusedToken('malformed', 'The claim sub of the token is not the id of a user')
  const user: TokenUser = {
    id: sub,
    rights: RIGHTS,
    sessions: undefined,
    issuedMs: (iat - 2 * SKEW_SECONDS) * 1_000, // by another clock, and accepted by a third: a cut also ends tokens issued a little later
    issuer: { id, name },
    endMs: (Math.min(exp, iat + maxAgeSeconds) + SKEW_SECONDS) * 1_000,
  }
  return { tenant, user }
}

function keysOf({ name, jwksUrl }: StoredIssuer, clock: Clock): TokenRule['keyOf'] {
  const find = createRemoteJWKSet(new URL(jwksUrl), FETCHING)
  let failedMs = Number.NEGATIVE_INFINITY
  const cannot = (cause?: unknown) =>
    new Retry('unavailable', `The keys of the issuer ${name} cannot be fetched`, {
      cause,
      fields: { isForCaller: true }, // it contains no URL
    })
  return async (header, token) => {
    const isKnown = find.fresh && find.jwks()?.keys.some(({ kid }) => kid !== undefined && kid === header.kid)
    if (!isKnown && clock.monotonicMs() < failedMs + PAUSE_MS) throw cannot() // jose would fetch for every token
    try {
      return await find(header, token)
    } catch (cause) {
      const hasNone =
        cause instanceof errors.JWKSNoMatchingKey || cause instanceof errors.JWKSMultipleMatchingKeys
      if (hasNone) throw refusedToken('signature')
      failedMs = clock.monotonicMs()
      throw cannot(cause)
    }
  }
}

/** What the token claims. Nothing is verified. */
function claimsOf(token: string): { readonly iss?: string; readonly aud?: string | string[] } {
  try {
    return decodeJwt(token)
  } catch {
    throw refusedToken('malformed')
  }
}

function isUserId(text: unknown): boolean {
  const isText = typeof text === 'string' && text.length > 0 && text.length <= SESSION_LIMITS.userIdLength
  return isText && text.isWellFormed() && !/\p{Cc}/u.test(text)
}
