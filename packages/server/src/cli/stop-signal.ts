// The wish to stop: SIGINT or SIGTERM. The first is answered in order; the second ends the process at once.

export type StopSignal = {
  /** The first signal's name. */
  readonly first: Promise<string>
  isAsked(): boolean
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const
const FAILED = 1

export function stopSignal(): StopSignal {
  const first = Promise.withResolvers<string>()
  let asked = 0
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      asked += 1
      first.resolve(signal)
      if (asked > 1) process.exit(FAILED)
    })
  }
  return { first: first.promise, isAsked: () => asked > 0 }
}
