// Finds out who calls, by the `authorization` header, or by a ticket at a socket. Guarantees:
//   S6  a key is compared by its digest; a wrong secret takes the same time wherever it is wrong
//   S9  a pod uses what it has read about keys and issuers for at most 2.5 s; a hint makes it read again at once. Streams ask
//       again every 2 s (`recheck`). So what is revoked ends within 5 s
// The answers, in the order in which they are checked:
//
//   header                      key, token or ticket                 answer
//   none, from this machine     none, the pod is insecure            anybody of the tenant `dev`, or an operator who reads
//   none                        none                                 401; the text says how to authenticate
//   not `Bearer` and one word                                        401
//   a key                       unknown, wrong secret                401, the same text for both
//   a key                       expired, revoked                     401, which says so: the caller has the secret
//   a key                       live                                 its tenant and scopes
//   a token                     not valid (`verify.ts`)              401, which says why
//   a token                     of a key that has ended, revoked, or 401
//                               of an issuer that was removed
//   a token                     valid                                its tenant, user and rights
//   none, a ticket              not 43 letters, digits, `-` and `_`  401
//   none, a ticket              unknown, used, older than 30 s       401, the same text for all
//   none, a ticket              of a token that has ended, or was    401, which says why; the ticket is used up
//                               revoked
//   none, a ticket              valid                                what its token gives; the ticket is used up
//   any of the three            a guess, or a ticket or a key that   429 (`failed-logins.ts`); the ticket is not used up
//                               this pod does not know, of an
//                               address that has failed too often
//   any of the three            PostgreSQL does not answer           503
//   a key, operator's port      PostgreSQL does not answer, and the  its scopes: metrics are needed most in an outage
//                               key was live in the last 15 minutes
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Hints } from '../store/hints.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Cuts } from './cuts.ts'
import { createFailedLogins, type FailedLogins } from './failed-logins.ts'
import { idOfKey, isDigestOf } from './key-text.ts'
import type { Keys } from './keys.ts'
import type { Issuers } from './issuers.ts'
import { createKnownKeys, type KnownKeys } from './known-keys.ts'
import { isFromOutside, type OutsideFacts, type OutsideTokens } from './outside-tokens.ts'
import type { Caller } from './actor.ts'
import { ANY_OPERATOR, anyoneOf, type Principal } from './principal.ts'
import { DEV_TENANT, type Tenants } from './tenants.ts'
import { isTicket, TICKET_SECONDS, type Tickets } from './tickets.ts'
import type { TokenFacts, Tokens } from './tokens.ts'
import { refusedToken } from './verify.ts'

/** What a request shows of its caller. */
export type Credentials = {
  readonly authorization: string | undefined
  /** Stands in for a missing `authorization`, where a socket is opened. Other requests have none. */
  readonly ticket?: string | undefined
  /** The address of the client. */
  readonly address: string
  /** It comes from a program or a page of this machine. */
  readonly isLocal: boolean
  /** How such a caller sends a key or a token, for the text of a refusal. In a header, unless it says so. */
  readonly how?: string
}
/** The callers of one port. */
export type PortCallers = {
  callerOf(credentials: Credentials): Promise<Principal>
  /** Throws if this caller is not let in any more. */
  recheck(principal: Principal): Promise<void>
}
export type Callers = Service & { readonly gateway: PortCallers; readonly admin: PortCallers }

type Deps = {
  readonly keys: Pick<Keys, 'find'>
  readonly tokens: Pick<Tokens, 'read'>
  readonly tickets: Pick<Tickets, 'redeem'>
  readonly issuers: Pick<Issuers, 'recent' | 'forget'>
  readonly outside: OutsideTokens
  readonly cuts: Pick<Cuts, 'isCut'>
  readonly tenants: Pick<Tenants, 'numberOf' | 'find'>
  readonly hints: Pick<Hints, 'listen'>
  readonly clock: Clock
  readonly metrics: Metrics
  /** Callers of this machine need no key. */
  readonly isInsecure: boolean
  readonly loginRate: number
}
type Around = Deps & { readonly known: KnownKeys; readonly failed: FailedLogins }

export const KEYS_TOPIC = 'keys'
const OUTAGE_MS = 15 * 60_000
const NO_SECRET = new Uint8Array(32)
const HOW = 'Send an API key or a token: authorization: Bearer KEY_OR_TOKEN'
const NO_KEY = 'This request names no key.'
const NOT_LOCAL =
  'This pod accepts requests without a key only from its own machine: to localhost, in HTTP/1.1, from a program or a page of localhost, and not through a proxy.'
const NEW_TICKET = 'Get a new one: POST /v1/tickets'
const UNKNOWN = 'There is no such key, or its secret is wrong.'

export function createCallers(deps: Deps): Callers {
  const { hints, tenants, isInsecure, issuers, clock, metrics } = deps
  const around = { ...deps, known: createKnownKeys(deps.keys, clock), failed: createFailedLogins(deps) }
  const anybody = async () => anyoneOf(await tenants.numberOf(DEV_TENANT))
  const counted = async <T>(work: Promise<T>): Promise<T> => {
    try {
      const found = await work
      metrics.count('logins', { outcome: 'done' })
      return found
    } catch (error) {
      if (error instanceof Rejected) metrics.count('logins', { outcome: String(error.fields['reason']) })
      throw error
    }
  }
  const port = (outageMs: number, nobody: () => Promise<Principal>): PortCallers => ({
    callerOf: async (credentials) => {
      const { authorization, ticket, isLocal, address } = credentials
      const hasNone = authorization === undefined && ticket === undefined
      if (hasNone && isInsecure && isLocal) return nobody()
      return counted(around.failed.watch(address, () => callerBy(around, credentials, outageMs)))
    },
    recheck: (principal) => recheck(around, principal, outageMs),
  })
  let unlisten = () => undefined as void
  return {
    name: 'callers',
    start: async () => {
      unlisten = hints.listen(KEYS_TOPIC, (source) => {
        if (source === 'poll') return
        around.known.forget()
        issuers.forget()
      })
    },
    stop: async () => unlisten(),
    gateway: port(0, anybody),
    admin: port(OUTAGE_MS, async () => ANY_OPERATOR),
  }
}

async function callerBy(
  around: Around,
  { authorization: header, ticket, address, how = HOW }: Credentials,
  outageMs: number,
): Promise<Principal> {
  if (header === undefined && ticket !== undefined) return userByTicket(around, ticket, address)
  if (header === undefined)
    throw refused('missing', `${NO_KEY} ${how}${around.isInsecure ? `. ${NOT_LOCAL}` : ''}`)
  const [scheme = '', text = '', ...rest] = header.split(' ')
  if (scheme.toLowerCase() !== 'bearer' || text === '' || rest.length > 0)
    throw refused('malformed', `The authorization header is not well formed. ${HOW}`)
  return text.includes('.') ? userBy(around, text) : keyBy(around, text, { outageMs, address, how })
}

type Asking = { readonly outageMs: number; readonly address: string; readonly how: string }

async function keyBy({ known, failed }: Around, text: string, asking: Asking): Promise<Principal> {
  const id = idOfKey(text)
  const find = async () => (id === undefined ? undefined : known.find(id, asking.outageMs))
  const isKnown = id === undefined || known.isKnown(id, text)
  const stored = isKnown ? await find() : await failed.readUnknown(asking.address, find)
  const isRight = isDigestOf(stored?.digest ?? NO_SECRET, text)
  if (!stored || !isRight) throw refused('unknown', `${UNKNOWN} ${asking.how}`)
  const fault = known.faultOf(stored)
  if (fault) throw refused(fault.reason, fault.text, { tenant: stored.tenant, key: stored.id })
  return { tenant: stored.tenant, scopes: new Set(stored.scopes), key: stored.id }
}

async function userBy(around: Around, token: string): Promise<Principal> {
  const reading: Promise<Facts> = (isFromOutside(token) ? around.outside : around.tokens).read(token)
  const facts = await reading.catch(async (error: unknown) => {
    const expired = error instanceof Rejected && (error.fields['facts'] as Facts | undefined)
    throw expired ? refused('expired', error.message, await principalOf(around, expired)) : error
  })
  const principal = await principalOf(around, facts)
  await recheck(around, principal, 0)
  return principal
}

async function userByTicket(around: Around, ticket: string, address: string): Promise<Principal> {
  if (!isTicket(ticket)) throw refused('malformed', `The ticket is not well formed. ${NEW_TICKET}`)
  const principal = await around.failed.readUnknown(address, () => around.tickets.redeem(ticket))
  if (!principal)
    throw refused(
      'unknown',
      `This ticket is not valid: it is used, or older than ${TICKET_SECONDS} s. ${NEW_TICKET}`,
    )
  await recheck(around, principal, 0)
  return principal
}

/** Our own tokens name their tenant, those of others belong to the tenant of their issuer. */
async function principalOf({ tenants }: Around, facts: Facts): Promise<Principal> {
  const tenant = typeof facts.tenant === 'number' ? facts.tenant : await tenants.find(facts.tenant)
  if (tenant === undefined) throw refusedToken('audience', 'The token is for a tenant that is not here')
  return { key: null, ...facts, tenant, scopes: NO_SCOPES }
}
type Facts = TokenFacts | OutsideFacts
const NO_SCOPES: Principal['scopes'] = new Set()

async function recheck(around: Around, principal: Principal, outageMs: number): Promise<void> {
  const { key, user, tenant } = principal
  const { known, cuts, issuers, clock } = around
  const refuse = (reason: string, text: string) => refused(reason, text, principal)
  if (user && clock.now() >= user.endMs) throw refuse('expired', refusedToken('expired').message)
  const minted = user ? 'The token was minted with a key that has ended. ' : ''
  const stored = key === null ? undefined : await known.find(key, outageMs)
  if (key !== null && !stored) throw refuse('unknown', minted + UNKNOWN)
  const fault = stored && known.faultOf(stored)
  if (fault) throw refuse(fault.reason, minted + fault.text)
  if (!user || tenant === null) return
  if (user.issuer !== undefined && !(await issuers.recent()).has(user.issuer.id))
    throw refuse('revoked', 'Tokens of this issuer are not accepted any more')
  if (await cuts.isCut(tenant, user.id, user.issuedMs))
    throw refuse('revoked', 'The token was revoked, with all tokens of its user. Get a new one')
}

/** `caller`: the owner of a genuine key or token, for the audit log. */
function refused(reason: string, text: string, caller?: Caller): Rejected {
  return new Rejected('unauthenticated', text, { fields: { reason, caller } })
}
