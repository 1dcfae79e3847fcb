// Limits what callers with a key or a token may send to this pod. Guarantees:
//   S29  a caller that sends more than its limits is rejected with 429 and told how long to wait. Other tenants are not slowed
//        down. Limit: each pod counts by itself
//
//   caller                       counted as
//   a key of a tenant            its key, its tenant
//   a key of an operator         its key
//   a user                       the user, its tenant; a message that it appends also counts for the session
//   anybody without credentials  nothing: it was let in because the pod is insecure
//
// A request that any limit rejects counts for none. Otherwise one user who sends too much would use up the limit of its tenant.
import { Rejected } from '../errors.ts'
import type { Config } from '../config.ts'
import type { Clock } from '../lib/clock.ts'
import { createRates, type Rates } from '../lib/rates.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Principal } from './principal.ts'

export type RateLimits = {
  /** Counts a request. Throws if its caller sends too many. */
  countRequest(principal: Principal): void
  /** Counts a message that the caller appends to the session with this UUID. Throws if users append too many. */
  countAppend(principal: Principal | null, session: string): void
}
type Deps = Pick<Config, 'sessionRate' | 'userRate' | 'keyRate' | 'tenantRate'> & {
  readonly clock: Clock
  readonly metrics: Metrics
}
type Limit = { readonly name: string; readonly rates: Rates; readonly rule: string }
/** A request counts for the bucket `of` this limit. */
type Counted = { readonly limit: Limit; readonly of: string }

const BURST_SECONDS = 4
const MOST_NAMES = 100_000

export function createRateLimits({ clock, metrics, ...settings }: Deps): RateLimits {
  const limitOf = (name: string, perSecond: number, rule: string): Limit => {
    const burst = BURST_SECONDS * perSecond
    return { name, rates: createRates({ perSecond, burst, most: MOST_NAMES, clock }), rule }
  }
  const { sessionRate, userRate, keyRate, tenantRate } = settings
  const [session, user, key, tenant] = [
    limitOf(
      'session',
      sessionRate,
      `Users append too many messages to this session on this pod: at most ${sessionRate} a second`,
    ),
    limitOf('user', userRate, `This user sends too many requests to this pod: at most ${userRate} a second`),
    limitOf(
      'key',
      keyRate,
      `Callers with this key send too many requests to this pod: at most ${keyRate} a second`,
    ),
    limitOf(
      'tenant',
      tenantRate,
      `The callers of this tenant send too many requests to this pod: at most ${tenantRate} a second`,
    ),
  ] as const
  const count = (all: readonly Counted[]) => {
    const waits = all.map(({ limit, of }) => ({ ...limit, waitMs: limit.rates.waitMs(of) }))
    const [longest] = waits.toSorted((a, b) => b.waitMs - a.waitMs)
    if (longest && longest.waitMs > 0) throw tooMany(metrics, longest)
    for (const { limit, of } of all) limit.rates.take(of)
  }
  return {
    countRequest: (principal) => {
      const ofTenant = { limit: tenant, of: String(principal.tenant) }
      if (principal.user) return count([{ limit: user, of: userOf(principal) }, ofTenant])
      if (principal.key === null) return
      count([{ limit: key, of: principal.key }, ...(principal.tenant === null ? [] : [ofTenant])])
    },
    countAppend: (principal, id) => {
      if (principal?.user) count([{ limit: session, of: `${principal.tenant} ${id}` }])
    },
  }
}

type Passed = Pick<Limit, 'name' | 'rule'> & { readonly waitMs: number }

/** The refusal of a request that is over a limit. It is counted in a metric and not logged: a flood would fill the log. */
export function tooMany(metrics: Metrics, { name, rule, waitMs }: Passed): Rejected {
  metrics.count('rateLimited', { limit: name })
  const text = `${rule}. Wait, then send again`
  return new Rejected('rate_limited', text, { fields: { reason: 'limited', retryAfterMs: waitMs } })
}

/** Tenants may have users with the same id. */
function userOf({ tenant, user }: Principal): string {
  return `${tenant} ${user?.id}`
}
