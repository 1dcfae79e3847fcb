// The page: the fleet above, two devices below, and beside them what happened.
import { useLayoutEffect, useRef } from 'preact/hooks'
import { Chat } from './chat.tsx'
import type { Device } from './device.ts'
import { Fleet } from './fleet.tsx'
import { lineOf, merged } from './lines.ts'
import type { Known, Stage } from './scene.ts'
import { useStore } from './store.ts'
import { Top } from './top.tsx'

type Props = { readonly stage: Stage; readonly devices: readonly [Device, Device] }

const LINES = 60

export function App({ stage, devices }: Props) {
  const known = useStore(stage)
  const [laptop, phone] = [useStore(devices[0]), useStore(devices[1])]
  const { scene } = known
  const hears = { laptop: laptop.pod, phone: phone.pod }
  return (
    <>
      <Top known={known} stage={stage} />
      {scene ? (
        <Fleet scene={scene} stage={stage} turn={laptop.snapshot.turn} hears={hears} />
      ) : (
        <div class="fleet" />
      )}
      <main class="stage">
        {devices.map((device, index) => {
          const home = scene?.pods[index % scene.pods.length]?.name
          return <Chat key={device.name} device={device} home={home} scene={scene} />
        })}
        <Events known={known} lines={laptop.lines} />
      </main>
    </>
  )
}

function Events({
  known: { scene },
  lines,
}: {
  readonly known: Known
  readonly lines: Parameters<typeof merged>[1]
}) {
  const shown = merged(
    LINES,
    (scene?.events ?? []).filter(({ message }) => message !== 'ready').map(lineOf),
    lines ?? [],
  )
  const ref = useRef<HTMLOListElement>(null)
  useLayoutEffect(() => {
    ref.current!.scrollTop = ref.current!.scrollHeight
  }, [shown.at(-1)?.key])
  return (
    <aside class="events">
      <h2>
        What happens <span>live</span>
      </h2>
      <ol ref={ref}>
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
