// Follows a session or an inbox: over the socket of its client, or over an event stream where sockets cannot be used. Both continue after
// the same position. Few pages need event streams, so their code is loaded when it is needed.
import { FleetlineError } from './failure.ts'
import type { Followed, Link } from './link.ts'
import type { Answer, Command } from './socket.ts'
import { insist } from './insist.ts'
import { napOf } from './nap.ts'
import { standingOf, type Connection } from './standing.ts'
import { within } from './within.ts'
import type { Place, Stream, StreamDeps } from './stream.ts'

type Deps = Pick<StreamDeps, 'http' | 'clock' | 'random' | 'prepare' | 'path' | 'take'> & {
  readonly link: Link
  /** Over a socket: how it begins, after `cursor` if there is one. */
  readonly command: (cursor: string | undefined) => Command
  /** Over a socket: called with the answer. */
  readonly begin?: (answer: Answer) => void
  readonly onConnection: (connection: Connection, refusal: FleetlineError | null) => void
}

export function createFeed(deps: Deps): Stream {
  const { link, clock, random, command, begin, onConnection } = deps
  const nap = napOf(clock)
  const place: Place = { cursor: undefined }
  const standing = standingOf(clock, (connection) => onConnection(connection, null))
  let isRefused = false
  const onRefused = (error: FleetlineError) => {
    isRefused = true
    standing.end()
    onConnection('refused', error)
  }
  let stream: Stream | undefined
  /** Tries again if the code cannot be loaded. */
  const overStream = async (signal: AbortSignal) => {
    const code = await insist({ nap, random, signal }, () =>
      within(clock, signal, () => import('./stream.ts')),
    ).catch(() => undefined)
    if (!code) return // the signal is aborted
    stream ??= code.createStream({ ...deps, place, standing, onRefused })
    await stream.run(signal)
  }
  const overSocket = (signal: AbortSignal) =>
    link.follow(
      {
        command: () => command(place.cursor),
        begin: (answer) => {
          begin?.(answer)
          if (!signal.aborted) standing.live()
        },
        take: (frame: Followed) => {
          const isTaken = deps.take(frame)
          place.cursor = isTaken && 'cursor' in frame ? frame.cursor : undefined
          return isTaken
        },
        lost: standing.lost,
      },
      signal,
    )
  return {
    run: async (signal) => {
      let isTooMany = false // the socket carries no further session or inbox
      while (!signal.aborted && !isRefused) {
        const usable = link.usable()
        if (isTooMany) await overStream(signal)
        else if (!usable.aborted) await overStream(AbortSignal.any([signal, usable]))
        else {
          const end = await overSocket(signal)
          if (!(end instanceof FleetlineError)) continue
          isTooMany = end.code === 'too_many'
          const isStrange = end.code === 'invalid' && place.cursor !== undefined // from a pod of another release: begin again
          if (isStrange) place.cursor = undefined
          else if (!isTooMany) onRefused(end)
        }
      }
      standing.end()
    },
    wake: () => {
      nap.wake()
      stream?.wake()
    },
  }
}
