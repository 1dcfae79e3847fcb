// Resolves host names. A name that a tenant chose is resolved over sockets: its name server may be slow on purpose, and Node's
// `dns.lookup` would wait for it on one of the four threads that files and other names need as well.
import { lookup, Resolver } from 'node:dns/promises'
import { within, type Clock } from '../lib/clock.ts'

type Names = {
  /** Resolves a name that an operator chose, as every other program on this machine does. */
  trusted(name: string, signal: AbortSignal): Promise<readonly string[]>
  /** Resolves any other name by asking the name servers. */
  asked(name: string, signal: AbortSignal): Promise<readonly string[]>
}
type Deps = {
  readonly clock: Clock
  /** Used instead of this machine's name servers. */
  readonly nameServers?: readonly string[]
}

const WHOLE_MS = 5_000
const TRIES = { timeout: 1_500, tries: 2 } // the second try has twice the time

export function createNames({ clock, nameServers }: Deps): Names {
  const late = Object.assign(new Error('The name servers did not answer'), { code: 'ETIMEOUT' })
  return {
    trusted: async (name, signal) => {
      const found = await within(clock, WHOLE_MS, lookup(name, { all: true }), late, signal)
      return found.map(({ address }) => address)
    },
    asked: async (name, signal) => {
      const resolver = new Resolver(TRIES) // one per call, so that its pending queries can be cancelled
      if (nameServers) resolver.setServers(nameServers)
      const both = Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
      const isLate = await within(clock, WHOLE_MS, both, late, signal).then(
        () => false,
        () => true,
      )
      resolver.cancel()
      signal.throwIfAborted()
      const answers = await both
      const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
      if (found.length > 0) return found // addresses of one family are enough
      throw isLate ? late : failureIn(answers)
    },
  }
}

/** No query has failed if the name is an alias of a name without addresses: that is ENODATA. */
function failureIn(answers: readonly PromiseSettledResult<unknown>[]): Error {
  const failed = answers.find((answer) => answer.status === 'rejected')
  return (failed?.reason as Error | undefined) ?? Object.assign(new Error('No address'), { code: 'ENODATA' })
}
