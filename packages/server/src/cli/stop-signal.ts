// The wish to stop: SIGINT, SIGTERM, or the end of the process that started us with a channel (`fleetline dev`). The
// first is answered in order; a second ends the process at once.

type StopSignal = {
  /** What was the first: a signal's name, or `disconnect`. */
  readonly first: Promise<string>
  isAsked(): boolean
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const
const FAILED = 1

export function stopSignal(): StopSignal {
  const first = Promise.withResolvers<string>()
  let asked = 0
  const ask = (signal: string) => {
    asked += 1
    first.resolve(signal)
    if (asked > 1) process.exit(FAILED)
  }
  for (const signal of SIGNALS) process.on(signal, () => ask(signal))
  process.on('disconnect', () => ask('disconnect'))
  if ('connected' in process && !process.connected) ask('disconnect') // before anybody listened
  process.channel?.unref() // it must not keep us once we have stopped
  return { first: first.promise, isAsked: () => asked > 0 }
}
