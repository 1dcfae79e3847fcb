// Requests to stop: SIGINT, SIGTERM, or the end of the parent process that started us with a channel (`fleetline dev`). The
// first request starts an orderly stop. A second one ends the process at once.

import { EXIT } from './output.ts'

type StopSignal = {
  /** The first request: a signal's name, or `disconnect`. */
  readonly first: Promise<string>
  isAsked(): boolean
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

export function stopSignal(): StopSignal {
  const first = Promise.withResolvers<string>()
  let asked = 0
  const ask = (signal: string) => {
    asked += 1
    first.resolve(signal)
    if (asked > 1) process.exit(signal === 'SIGINT' ? EXIT.interrupted : EXIT.failed)
  }
  for (const signal of SIGNALS) process.on(signal, () => ask(signal))
  process.on('disconnect', () => ask('disconnect'))
  if ('connected' in process && !process.connected) ask('disconnect') // it disconnected before we listened
  process.channel?.unref() // the channel must not keep the process alive after the stop
  return { first: first.promise, isAsked: () => asked > 0 }
}
