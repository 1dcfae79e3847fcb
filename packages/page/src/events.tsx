// What happens, a line each: to the fleet, to the session, and to either device.
import type { SceneEvent } from '../../server/src/cli/dev/page/wire.ts'
import { lineOf, merged, type Line } from './lines.ts'
import { usePinned } from './pinned.ts'

type Props = {
  readonly events: readonly SceneEvent[]
  /** Of the devices. */
  readonly laptop: readonly Line[]
  readonly phone: readonly Line[]
}

const LINES = 60

export function Events({ events, laptop, phone }: Props) {
  const told = events.filter(({ message }) => message !== 'ready') // it has joined, which is told
  const own = phone.filter(({ about }) => about === 'device') // the rest is what the laptop hears, too
  const shown = merged(LINES, told.map(lineOf), laptop, own)
  const { ref, onScroll } = usePinned<HTMLOListElement>(shown.at(-1)?.key)
  return (
    <aside class="events">
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
    </aside>
  )
}
