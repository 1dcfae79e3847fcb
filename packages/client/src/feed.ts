// Follows a session or an inbox: over the socket of its client, or over an event stream where sockets cannot be used. Both continue after
// the same position.
import type { Clock, Random } from './clock.ts'
import { FleetlineError } from './failure.ts'
import type { Http } from './http.ts'
import type { FollowEnd, Followed, Link } from './link.ts'
import type { Answer, Command } from './socket.ts'
import { standingOf, type Connection } from './standing.ts'
import { createStream, type Place, type Stream } from './stream.ts'

type Deps = {
  readonly link: Link
  readonly http: Pick<Http, 'events'>
  readonly clock: Clock
  readonly random: Random
  /** Over a socket: how it begins, after `cursor` if there is one. */
  readonly command: (cursor: string | undefined) => Command
  readonly begin: (answer: Answer) => void
  /** Over events: called before it begins without a position. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>
  /** Over events: where to begin without a position. */
  readonly path: () => string
  /** Returns false if something is missing. Then it begins again. */
  readonly take: (frame: Followed) => boolean
  readonly onConnection: (connection: Connection, refusal?: FleetlineError) => void
}

export function createFeed(deps: Deps): Stream {
  const { link, http, clock, random, command, begin, prepare, path, take, onConnection } = deps
  const place: Place = { cursor: undefined }
  const standing = standingOf(clock, onConnection)
  let isRefused = false
  const onRefused = (error: FleetlineError) => {
    isRefused = true
    standing.end()
    onConnection('refused', error)
  }
  const stream = createStream({
    http,
    clock,
    random,
    place,
    standing,
    ...(prepare && { prepare }),
    path,
    take: (frame) => take(frame as Followed),
    onRefused,
  })
  const takeNext = (frame: Followed): boolean => {
    const isTaken = take(frame)
    place.cursor = isTaken && 'cursor' in frame ? frame.cursor : undefined
    return isTaken
  }
  const overSocket = async (signal: AbortSignal): Promise<FollowEnd> =>
    link.follow(
      {
        command: () => command(place.cursor),
        begin: (answer) => {
          begin(answer)
          standing.live()
        },
        take: takeNext,
        lost: standing.lost,
      },
      signal,
    )
  return {
    run: async (signal) => {
      let isTooMany = false // the socket follows as many as it may
      while (!signal.aborted && !isRefused) {
        if (!link.isUsable() || isTooMany) {
          await stream.run(isTooMany ? signal : AbortSignal.any([signal, link.usable()]))
          continue
        }
        const end = await overSocket(signal)
        if (end instanceof FleetlineError && end.code === 'invalid' && place.cursor !== undefined)
          place.cursor = undefined
        else if (end instanceof FleetlineError && end.code === 'too_many') isTooMany = true
        else if (end instanceof FleetlineError) onRefused(end)
      }
      standing.end()
    },
    wake: stream.wake,
  }
}
