// The page: the pods on top, two devices below, and beside them the fleet's work and the list of events.
import { Chat } from './chat.tsx'
import { replyOf, type Device } from './device.ts'
import { Events } from './events.tsx'
import { Fleet } from './fleet.tsx'
import type { Stage } from './scene.ts'
import { useStore } from './store.ts'
import { Top } from './top.tsx'
import { Work } from './work.tsx'

type Props = { readonly stage: Stage; readonly devices: readonly [Device, Device] }

export function App({ stage, devices }: Props) {
  const known = useStore(stage)
  const [laptop, phone] = [useStore(devices[0]), useStore(devices[1])]
  const { scene } = known
  const hears = { laptop: laptop.pod, phone: phone.pod }
  return (
    <>
      <Top known={known} stage={stage} />
      {scene ? (
        <Fleet scene={scene} stage={stage} reply={replyOf(laptop)} hears={hears} />
      ) : (
        <div class="fleet" />
      )}
      <main class="stage">
        {devices.map((device, index) => {
          const home = scene?.pods[index % scene.pods.length]?.name
          return <Chat key={device.name} device={device} home={home} pods={scene?.pods ?? []} />
        })}
        <aside>
          <Work work={scene?.work ?? null} />
          <Events
            events={scene?.events ?? []}
            laptop={laptop.lines}
            phone={phone.lines}
            stopped={laptop.snapshot.turn?.state === 'stopped' ? laptop.snapshot.turn.id : null}
          />
        </aside>
      </main>
    </>
  )
}
