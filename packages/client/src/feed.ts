// Follows a session or an inbox: over the socket of its client, or over an event stream where sockets cannot be used. Both continue after
// the same position.
import { FleetlineError } from './failure.ts'
import type { Followed, Link } from './link.ts'
import type { Answer, Command } from './socket.ts'
import { standingOf, type Connection } from './standing.ts'
import { createStream, type Place, type Stream, type StreamDeps } from './stream.ts'

type Deps = Pick<StreamDeps, 'http' | 'clock' | 'random' | 'prepare' | 'path' | 'take'> & {
  readonly link: Link
  /** Over a socket: how it begins, after `cursor` if there is one. */
  readonly command: (cursor: string | undefined) => Command
  /** Over a socket: called with the answer. */
  readonly begin?: (answer: Answer) => void
  readonly onConnection: (connection: Connection, refusal: FleetlineError | null) => void
}

export function createFeed(deps: Deps): Stream {
  const { link, clock, command, begin, onConnection } = deps
  const place: Place = { cursor: undefined }
  const standing = standingOf(clock, (connection) => onConnection(connection, null))
  let isRefused = false
  const onRefused = (error: FleetlineError) => {
    isRefused = true
    standing.end()
    onConnection('refused', error)
  }
  const stream = createStream({ ...deps, place, standing, onRefused })
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
      let isTooMany = false // the socket carries as many as it may
      while (!signal.aborted && !isRefused) {
        const usable = link.usable()
        if (isTooMany) await stream.run(signal)
        else if (!usable.aborted) await stream.run(AbortSignal.any([signal, usable]))
        else {
          const end = await overSocket(signal)
          if (!(end instanceof FleetlineError)) continue
          isTooMany = end.code === 'too_many'
          const isStrange = end.code === 'invalid' && place.cursor !== undefined // of another release: begin again
          if (isStrange) place.cursor = undefined
          else if (!isTooMany) onRefused(end)
        }
      }
      standing.end()
    },
    wake: stream.wake,
  }
}
