// Ctrl-C while a reply is waited for: it is stopped, whichever pod runs it, and its end is waited for. A second one ends the
// process, as it would without us.
//   the turn that answers the message     Ctrl-C
//   is live                               stops it, until a pod has answered that; its end comes as a frame
//   is none yet: others are before it     leaves: the message waits for its reply without us
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
  /** Aborted when there is nothing to wait for any more, with the reason. */
  readonly leaving: AbortSignal
  readonly forget: () => void
}

type Deps = Pick<Api, 'ask'> & {
  readonly clock: Clock
  readonly random: Random
  readonly note: (text: string) => void
}
type Waiting = {
  /** Of the session, below /v1. */
  readonly path: string
  readonly reply: ReplyPrinter
  /** The turn that was live when the message was stored. */
  readonly firstTurn: string
}

/** The reason to leave a message whose reply has not begun. */
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
    const asked = { method: 'GET', path: `/turns/${firstTurn}`, signal, answer: turnSchema } as const
    return (await untilAnswered(() => ask(asked))) as Turn | undefined // its ids were made as such
  }
  const stop = async () => {
    note('Stopping it. Ctrl-C again leaves it as it is.')
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
