// Tokens of users: JSON Web Tokens that a tenant's back end gets from `POST /v1/tokens` for a browser. Guarantees:
//   S8  a token names its tenant, its user, what it lets the user do and, if wanted, the sessions; it is valid for 10 minutes
//       at most
//   S7  a token is accepted only with our algorithm, our issuer, the audience of this cell and a key of this fleet's ring
// The time in a token is that of the database, so that pods whose clocks differ agree on what was issued before a cut. A pod
// compares it with its own clock and allows a difference of 30 seconds.
import { SignJWT, type JWTPayload } from 'jose'
import { formatId, parseId } from '@fleetline/protocol'
import { z } from 'zod'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { TokenKey } from '../lib/setting-values.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Actor } from './actor.ts'
import type { Audit } from './audit.ts'
import type { TokenUser } from './principal.ts'
import { ALL_RIGHTS, type Right } from './scopes.ts'
import { TOKEN_LIMITS } from './token-limits.ts'
import { createVerifier, refusedToken, SKEW_SECONDS } from './verify.ts'

export const TOKEN_ISSUER = 'fleetline'

export type NewToken = {
  readonly user: string
  /** UUIDs. Undefined: all sessions of which the user is a member. */
  readonly sessions?: readonly string[] | undefined
  readonly rights: readonly Right[]
  readonly seconds: number
}
/** On whose behalf a token is minted: the name of a tenant, and the key that the token ends with. */
export type TokenOwner = { readonly tenant: string; readonly key: string | null }
/** `number`: of the tenant. */
export type TokenMinter = TokenOwner & { readonly number: number; readonly actor: Actor }
/** What a valid token says. */
export type TokenFacts = TokenOwner & { readonly user: TokenUser }
export type Tokens = {
  mint(minter: TokenMinter, wanted: NewToken): Promise<{ readonly token: string; readonly expiresAt: Date }>
  /** Throws if the token is not one of ours, or is not valid now. */
  read(token: string): Promise<TokenFacts>
}

type Deps = {
  /** The first key signs. All of them verify. */
  readonly tokenKeys: readonly TokenKey[]
  readonly cell: number
  readonly database: Transactions
  readonly audit: Pick<Audit, 'record'>
  readonly clock: Clock
  readonly random: Random
}

const ALGORITHM = 'HS256'
const NO_RING =
  'This pod has no key that signs tokens: set FLEETLINE_TOKEN_KEYS on every pod, to the same value, for example 1:$(openssl rand -base64 32)'

const claimsSchema = z.object({
  sub: z.string(),
  iat: z.number(),
  exp: z.number(),
  ten: z.string(),
  ses: z.union([z.literal('member'), z.array(z.string())]),
  scp: z.array(z.string()), // a later release may know more rights
  key: z.string().optional(),
})

export function createTokens({ tokenKeys, cell, database, audit, clock, random }: Deps): Tokens {
  const [signer] = tokenKeys
  const ring = new Map(tokenKeys.map(({ id, secret }) => [id, secret]))
  const audience = `fleetline/${cell}`
  const verify = createVerifier(
    {
      issuer: TOKEN_ISSUER,
      audience,
      algorithms: [ALGORITHM],
      maxAgeSeconds: TOKEN_LIMITS.seconds,
      keyOf: async ({ kid = '' }) => {
        const secret = ring.get(kid)
        if (!secret) throw refusedToken('signature', 'No key of this fleet has signed the token')
        return secret
      },
    },
    clock,
  )
  const recordMinting = async ({ actor, number }: TokenMinter, user: string) => {
    const change = { actor, action: 'token.mint', tenant: number, target: user } as const
    const outcome = await database.transaction((query) => audit.record(query, change))
    return valueOf(outcome, 'Whether the token was recorded is not known: mint another one')
  }
  return {
    mint: async (minter, { user, sessions, rights, seconds }) => {
      if (!signer) throw new Rejected('invalid', NO_RING)
      const { tenant, key } = minter
      const iat = (await recordMinting(minter, user)).getTime() / 1_000 // whole milliseconds, rounded down, so that a revocation that follows is never older than the token
      const claims: JWTPayload & z.infer<typeof claimsSchema> = {
        iss: TOKEN_ISSUER,
        aud: audience,
        sub: user,
        iat,
        exp: iat + seconds,
        jti: Buffer.from(random.bytes(16)).toString('base64url'),
        ten: tenant,
        ses: sessions ? sessions.map((uuid) => formatId('session', cell, uuid)) : 'member',
        scp: [...rights],
        ...(key !== null && { key }),
      }
      const header = { alg: ALGORITHM, kid: signer.id, typ: 'JWT' }
      const token = await new SignJWT(claims).setProtectedHeader(header).sign(signer.secret)
      return { token, expiresAt: new Date(claims.exp * 1_000) }
    },
    read: async (token) => {
      if (!signer) throw refusedToken('signature', NO_RING)
      return verify(token, factsOf)
    },
  }
}

function factsOf(payload: JWTPayload): TokenFacts {
  const claims = claimsSchema.safeParse(payload)
  if (!claims.success) throw refusedToken('malformed', 'The token lacks a claim')
  const { sub, iat, exp, ten, ses, scp, key = null } = claims.data
  const user: TokenUser = {
    id: sub,
    rights: new Set(ALL_RIGHTS.filter((right) => scp.includes(right))),
    sessions: ses === 'member' ? undefined : new Set(ses.map((id) => parseId('session', id)?.uuid ?? id)),
    issuedMs: iat * 1_000,
    endMs: (exp + SKEW_SECONDS) * 1_000,
  }
  return { tenant: ten, key, user }
}
