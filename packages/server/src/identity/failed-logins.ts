// Limits how many logins may fail from one address on this pod (S29). Two needs pull in different directions: a flood of guesses
// must not read the database for each guess, and it must not lock out others behind the same address, such as the colleagues in
// one office. So an address that has failed too often is not locked out. Only keys and tickets that this pod would have to read
// for this caller are rejected. A key that this pod has read as live, and a token whose signature is valid, are still let in.
//
// Only what looks like guessing counts as a failure. A caller whose key has expired or was revoked has its secret and must be
// told to renew it. A caller without a key is answered without a read. Addresses of one IPv6 network count together.
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { networkOf } from '../lib/network.ts'
import { createRates } from '../lib/rates.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { tooMany } from './rate-limits.ts'

export type FailedLogins = {
  /** Counts if the login fails by what looks like guessing. Rejects with 429 if the address has failed too often. */
  watch<T>(address: string, login: () => Promise<T>): Promise<T>
  /** Reads a key that this pod does not know, or a ticket. Rejects with 429, unread, if the address has failed too often. */
  readUnknown<T>(address: string, read: () => Promise<T>): Promise<T>
}
type Deps = {
  /** How many logins of one address may fail each minute. */
  readonly loginRate: number
  readonly clock: Clock
  readonly metrics: Metrics
}

const GUESSES: ReadonlySet<unknown> = new Set(['unknown', 'malformed', 'signature', 'algorithm', 'audience'])
const MOST_NETWORKS = 100_000
const MOST_READS = 100 // of one address at once: none of them has failed yet
const READ_WAIT_MS = 1_000
const READING = `Callers from this address use more than ${MOST_READS} keys or tickets at once that this pod has not read yet`

export function createFailedLogins({ loginRate, clock, metrics }: Deps): FailedLogins {
  const failures = createRates({ perSecond: loginRate / 60, burst: loginRate, most: MOST_NETWORKS, clock })
  const reads = new Map<string, number>()
  const failing = `Too many logins from this address have failed on this pod: at most ${loginRate} a minute`
  const refuse = (waitMs: number, rule: string) => tooMany(metrics, { name: 'login', rule, waitMs })
  const refuseFailing = (waitMs: number) => {
    if (waitMs > 0) throw refuse(waitMs, failing)
  }
  const addRead = (network: string, by: number) => {
    const count = (reads.get(network) ?? 0) + by
    if (count === 0) reads.delete(network)
    else reads.set(network, count)
  }
  return {
    watch: async (address, login) => {
      try {
        return await login()
      } catch (error) {
        if (error instanceof Rejected && GUESSES.has(error.fields['reason']))
          refuseFailing(failures.take(networkOf(address)))
        throw error
      }
    },
    readUnknown: async (address, read) => {
      const network = networkOf(address)
      refuseFailing(failures.waitMs(network))
      if ((reads.get(network) ?? 0) >= MOST_READS) throw refuse(READ_WAIT_MS, READING)
      addRead(network, 1)
      return read().finally(() => addRead(network, -1))
    },
  }
}
