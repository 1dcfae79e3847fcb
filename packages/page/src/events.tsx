// The list of events, one line each: of the fleet, of the session, and of both devices.
import type { SceneEvent } from '../../server/src/cli/dev/page/wire.ts'
import { lineOf, merged, worthTelling, type Line } from './lines.ts'
import { usePinned } from './pinned.ts'

type Props = {
  readonly events: readonly SceneEvent[]
  /** The lines of the two devices. */
  readonly laptop: readonly Line[]
  readonly phone: readonly Line[]
  /** The id of the last turn, if it was stopped. */
  readonly stopped: string | null
}

const LINES = 60

export function Events({ events, laptop, phone, stopped }: Props) {
  const own = phone.filter(({ about }) => about === 'device') // the laptop receives all other lines, too
  const shown = merged(LINES, worthTelling(events, stopped).map(lineOf), laptop, own)
  const { ref, onScroll } = usePinned<HTMLOListElement>(shown.at(-1)?.key)
  return (
    <section class="events" aria-label="What happens">
      <h2>
        What happens <span>live</span>
      </h2>
      <ol ref={ref} onScroll={onScroll}>
        {shown.map(({ key, atMs, tone, text }) => (
          <li key={key}>
            <time>{new Date(atMs).toLocaleTimeString('en-GB')}</time>
            <div class={tone}>{text}</div>
          </li>
        ))}
      </ol>
    </section>
  )
}
