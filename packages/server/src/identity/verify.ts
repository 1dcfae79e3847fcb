// Verifies a JSON Web Token with `jose`. Every token that is refused is refused for a named reason (S7):
//
//   expired     it has expired, or was issued too long ago
//   early       it is not valid yet
//   audience    it is for somebody else
//   algorithm   its algorithm is not one that the issuer uses
//   signature   it is not signed with a key of its issuer
//   malformed   it is no token, or a claim is missing
import { errors, jwtVerify, type JWTHeaderParameters, type JWTPayload } from 'jose'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'

export const SKEW_SECONDS = 30

export type TokenReason = 'expired' | 'early' | 'audience' | 'algorithm' | 'signature' | 'malformed'

/** What tokens of one issuer must have. */
export type TokenRule = {
  readonly issuer: string
  readonly audience: string
  readonly algorithms: readonly string[]
  readonly maxAgeSeconds: number
  readonly keyOf: (header: JWTHeaderParameters, token: FlatToken) => Promise<Uint8Array | CryptoKey>
}
type FlatToken = Parameters<Extract<Parameters<typeof jwtVerify>[1], (...args: never[]) => unknown>>[1]

const TEXTS: Readonly<Record<TokenReason, string>> = {
  expired: 'The token has expired. Get a new one',
  early: 'The token is not valid yet. Compare the clock of the issuer with the clock of the pods',
  audience: 'The token is for another audience or issuer',
  algorithm: 'The algorithm of the token is not allowed for its issuer',
  signature: 'The token is not signed with a key of its issuer',
  malformed: 'The token is not well formed',
}

export function refusedToken(
  reason: TokenReason,
  text: string = TEXTS[reason],
  fields: object = {},
): Rejected {
  return new Rejected('unauthenticated', text, { fields: { ...fields, reason } })
}

/** The returned function resolves to what the claims say, or throws the refusal. An expired token is otherwise genuine, so its
 *  refusal has the field `facts`: the audit log names its user. */
export function createVerifier(
  { issuer, audience, algorithms, maxAgeSeconds, keyOf }: TokenRule,
  clock: Clock,
) {
  return async <Facts>(token: string, factsOf: (claims: JWTPayload) => Facts): Promise<Facts> => {
    const rules = {
      issuer,
      audience,
      algorithms: [...algorithms],
      maxTokenAge: maxAgeSeconds,
      clockTolerance: SKEW_SECONDS,
      currentDate: new Date(clock.now()),
      requiredClaims: ['sub', 'exp', 'iat'],
    }
    const { payload } = await jwtVerify(token, keyOf, rules).catch((error: unknown) => {
      if (!(error instanceof errors.JWTExpired)) throw refusalOf(error)
      throw refusedToken('expired', TEXTS.expired, { facts: factsOf(error.payload) })
    })
    return factsOf(payload)
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof errors.JWTClaimValidationFailed) return refusedToken(reasonOf(error))
  if (error instanceof errors.JOSEAlgNotAllowed) return refusedToken('algorithm')
  if (error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWKSNoMatchingKey)
    return refusedToken('signature')
  if (error instanceof TypeError) return refusedToken('signature') // a key that is too short, for example
  const isBroken = error instanceof errors.JWTInvalid || error instanceof errors.JWSInvalid
  return isBroken || error instanceof errors.JOSENotSupported ? refusedToken('malformed') : error
}

function reasonOf({ claim, reason }: errors.JWTClaimValidationFailed): TokenReason {
  if (reason === 'missing') return 'malformed'
  if (claim === 'nbf' || claim === 'iat') return 'early'
  return claim === 'aud' || claim === 'iss' ? 'audience' : 'malformed'
}
