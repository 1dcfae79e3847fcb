// Handles Ctrl-C while a command waits for a reply: it stops the reply, whichever pod runs it, and waits for its end. A second
// Ctrl-C ends the process, as it does by default.
//   the turn that answers the message     Ctrl-C
//   is live                               stops it and retries until a pod has answered; its end arrives as a frame
//   has not begun: others come first      leaves; the reply to the message comes later, without us
import type { Turn } from '@fleetline/protocol'
import { Retry } from '../../errors.ts'
import { stopAckSchema, turnSchema } from '../../gateway/turn-schemas.ts'
import type { Clock } from '../../lib/clock.ts'
import { retryUntilAnswered } from '../../lib/retry-until-answered.ts'
import type { Random } from '../../lib/random.ts'
import type { Api } from '../api.ts'
import type { ReplyPrinter } from './reply.ts'

type Interrupt = {
  readonly isAsked: () => boolean
  /** Aborted, with the reason, when there is nothing left to wait for. */
  readonly leaving: AbortSignal
  readonly forget: () => void
}

type Deps = Pick<Api, 'ask'> & {
  readonly clock: Clock
  readonly random: Random
  readonly note: (text: string) => void
}
type Waiting = {
  /** The session's path, relative to /v1. */
  readonly path: string
  readonly reply: ReplyPrinter
  /** The turn that was live when the message was stored. */
  readonly firstTurn: string | undefined
}

/** The reason to leave when the reply has not begun. */
export const LEFT: unique symbol = Symbol('left')

export function onInterrupt({ ask, note, ...deps }: Deps, { path, reply, firstTurn }: Waiting): Interrupt {
  const leaving = new AbortController()
  const { signal } = leaving
  let isAsked = false
  const onFailure = (error: unknown) => {
    if (!(error instanceof Retry)) throw error
  }
  const untilAnswered = <T>(call: () => Promise<T>) =>
    retryUntilAnswered({ ...deps, signal, onFailure }, call)
  const firstOf = async () => {
    if (firstTurn === undefined) return undefined
    const asked = { method: 'GET', path: `/turns/${firstTurn}`, signal, answer: turnSchema } as const
    return (await untilAnswered(() => ask(asked))) as Turn | undefined // the server made its ids, so they fit the type
  }
  const stop = async () => {
    note('Stopping the reply. Press Ctrl-C again to quit without waiting.')
    const turn = reply.turn() ?? (await firstOf())
    if (!turn || !reply.isOf(turn)) return leaving.abort(LEFT)
    const body = { turn: turn.id, epoch: turn.epoch }
    const asked = { method: 'POST', path: `${path}/stop`, body, signal, answer: stopAckSchema } as const
    await untilAnswered(() => ask(asked))
  }
  const onSignal = () => {
    isAsked = true
    stop().catch((error: unknown) => leaving.abort(error))
  }
  process.once('SIGINT', onSignal)
  return {
    isAsked: () => isAsked,
    leaving: signal,
    forget: () => {
      process.off('SIGINT', onSignal)
      leaving.abort()
    },
  }
}
