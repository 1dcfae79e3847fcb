// Finds out who calls, by the `authorization` header. Guarantees:
//   S6  a key is compared by its digest; a wrong secret takes the same time wherever it is wrong
//   S9  a pod uses what it has read about a key for at most 2.5 s; a hint makes it read again at once. Streams ask again every
//       2 s. So a revoked key ends within 5 s
// The answers, in the order in which they are checked:
//
//   header                      key                                  answer
//   none, from this machine     the pod is insecure                  anybody of the tenant `dev`, or an operator who reads
//   none                                                             401
//   not `Bearer` and a key                                           401
//   a key                       unknown, wrong secret                401, the same text for both
//   a key                       expired, revoked                     401, which says so: the caller has the secret
//   a key                       live                                 its tenant and scopes
//   a key                       PostgreSQL does not answer           503
//   a key, operator's port      PostgreSQL does not answer, and the  its scopes: metrics are needed most in an outage
//                               key was live in the last 15 minutes
import { Rejected, Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Hints } from '../store/hints.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { idOfKey, isDigestOf } from './key-text.ts'
import type { Keys, StoredKey } from './keys.ts'
import { ANY_OPERATOR, anyoneOf, type Principal } from './principal.ts'
import { DEV_TENANT, type Tenants } from './tenants.ts'

/** What a request shows of its caller. */
export type Credentials = {
  readonly authorization: string | undefined
  /** It comes from a program or a page of this machine. */
  readonly isLocal: boolean
}
type Port = 'gateway' | 'admin'
export type Callers = Service & {
  callerOf(credentials: Credentials, port: Port): Promise<Principal>
}
type Deps = {
  readonly keys: Pick<Keys, 'find'>
  readonly tenants: Pick<Tenants, 'numberOf'>
  readonly hints: Pick<Hints, 'listen'>
  readonly clock: Clock
  readonly metrics: Metrics
  /** Callers of this machine need no key. */
  readonly isInsecure: boolean
}

export const KEYS_TOPIC = 'keys'
const NO_SECRET = new Uint8Array(32)
const HOW = 'Send an API key: authorization: Bearer fl_…'
const UNKNOWN = 'There is no such key, or its secret is wrong'

export function createCallers({ keys, tenants, hints, clock, metrics, isInsecure }: Deps): Callers {
  const known = createKnownKeys(keys, clock)
  const refuse = (reason: string, text: string): Rejected => {
    metrics.count('logins', { outcome: reason })
    return new Rejected('unauthenticated', text)
  }
  const byKey = async (text: string, port: Port): Promise<Principal> => {
    const id = idOfKey(text)
    const stored = id === undefined ? undefined : await known.find(id, port)
    const isRight = isDigestOf(stored?.digest ?? NO_SECRET, text)
    if (!stored || !isRight) throw refuse('unknown', `${UNKNOWN}. ${HOW}`)
    const said = `The key ${stored.id}`
    if (stored.isRevoked) throw refuse('revoked', `${said} was revoked. Use another one`)
    if (clock.monotonicMs() >= stored.endMs)
      throw refuse('expired', `${said} expired at ${stored.expiresAt.toISOString()}. Use another one`)
    metrics.count('logins', { outcome: 'done' })
    return { tenant: stored.tenant, scopes: new Set(stored.scopes), key: stored.id }
  }
  let unlisten = () => undefined as void
  return {
    name: 'callers',
    start: async () => {
      unlisten = hints.listen(KEYS_TOPIC, (source) => source !== 'poll' && known.forget())
    },
    stop: async () => unlisten(),
    callerOf: async ({ authorization, isLocal }, port) => {
      if (authorization === undefined) {
        if (!isInsecure || !isLocal) throw refuse('missing', `This request names no key. ${HOW}`)
        return port === 'admin' ? ANY_OPERATOR : anyoneOf(await tenants.numberOf(DEV_TENANT))
      }
      const [scheme = '', text = '', ...rest] = authorization.split(' ')
      if (scheme.toLowerCase() !== 'bearer' || text === '' || rest.length > 0)
        throw refuse('malformed', `The authorization header is not well formed. ${HOW}`)
      return byKey(text, port)
    },
  }
}

type KnownKey = StoredKey & {
  /** When it was asked for, and when it expires, by the pod's monotonic clock. */
  readonly askedMs: number
  readonly endMs: number
}

const KEPT_MS = 2_500
const OLDEST_MS = 5_000 // a read may have taken long
const OUTAGE_MS = 15 * 60_000
const MOST_KEYS = 10_000

/** What this pod has read about keys. Keys that were not found are not kept: one that is created now works at once. */
function createKnownKeys({ find }: Pick<Keys, 'find'>, clock: Clock) {
  const reading = new Map<string, { readonly askedMs: number; readonly key: Promise<KnownKey | undefined> }>()
  const last = new Map<string, KnownKey>()
  const isFresh = ({ askedMs }: { readonly askedMs: number }, ms = KEPT_MS) =>
    clock.monotonicMs() < askedMs + ms
  const read = async (id: string, askedMs: number): Promise<KnownKey | undefined> => {
    const row = await find(id)
    if (last.size >= MOST_KEYS) last.clear()
    if (!row) last.delete(id)
    const key = row && { ...row, askedMs, endMs: askedMs + row.leftMs }
    if (key) last.set(id, key)
    return key
  }
  const ask = (id: string): Promise<KnownKey | undefined> => {
    const before = reading.get(id)
    if (before && isFresh(before)) return before.key
    if (reading.size >= MOST_KEYS) reading.clear()
    const askedMs = clock.monotonicMs()
    const entry = { askedMs, key: read(id, askedMs) }
    reading.set(id, entry)
    const drop = () => reading.get(id) === entry && reading.delete(id)
    entry.key.then((key) => key ?? drop(), drop)
    return entry.key
  }
  return {
    find: async (id: string, port: Port): Promise<KnownKey | undefined> => {
      try {
        const key = await ask(id)
        if (key && !isFresh(key, OLDEST_MS)) throw new Retry('unavailable', 'The key was read too slowly')
        return key
      } catch (error) {
        const before = last.get(id)
        const isOutage = port === 'admin' && error instanceof Retry && before && isFresh(before, OUTAGE_MS)
        if (isOutage) return before
        throw error
      }
    },
    /** Reads every key again when it is used next. */
    forget: () => reading.clear(),
  }
}
