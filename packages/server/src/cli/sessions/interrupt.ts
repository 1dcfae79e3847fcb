// Ctrl-C while a reply is waited for: it is stopped, whichever pod runs it, and its end is waited for. A second one ends the
// process, as it would without us.
//   the turn that answers the message     Ctrl-C
//   is live                               stops it, until a pod has answered that; its end comes as a frame
//   is none yet: others are before it     leaves: the message waits for its reply without us
import { Abort, Retry } from '../../errors.ts'
import { stopAckSchema } from '../../gateway/turn-schemas.ts'
import type { Clock } from '../../lib/clock.ts'
import { insist } from '../../lib/insist.ts'
import type { Random } from '../../lib/random.ts'
import type { Api } from '../api.ts'
import type { Reply } from './reply.ts'

export type Interrupt = {
  readonly isAsked: () => boolean
  /** Aborted when there is nothing to wait for any more, with the reason. */
  readonly leaving: AbortSignal
  readonly forget: () => void
}

type Deps = Pick<Api, 'ask'> & {
  readonly clock: Clock
  readonly random: Random
  /** Of the session, below /v1. */
  readonly path: string
  readonly note: (text: string) => void
}

/** The reason to leave a message whose reply has not begun. */
export const LEFT = new Abort('internal', 'The message is stored, and waits for its reply')

export function onInterrupt({ ask, path, note, ...deps }: Deps, { turn: liveTurn }: Reply): Interrupt {
  const leaving = new AbortController()
  let isAsked = false
  const onFailure = (error: unknown) => {
    if (!(error instanceof Retry)) throw error
  }
  const stop = async () => {
    const turn = liveTurn()
    if (!turn) throw LEFT
    note('Stopping it. Ctrl-C again leaves it as it is.')
    const body = { turn: turn.id, epoch: turn.epoch }
    const asked = { method: 'POST', path: `${path}/stop`, body, answer: stopAckSchema } as const
    await insist({ ...deps, signal: leaving.signal, onFailure }, () => ask(asked))
  }
  const onSignal = () => {
    isAsked = true
    stop().catch((error: unknown) => leaving.abort(error))
  }
  process.once('SIGINT', onSignal)
  return {
    isAsked: () => isAsked,
    leaving: leaving.signal,
    forget: () => {
      process.off('SIGINT', onSignal)
      leaving.abort()
    },
  }
}
