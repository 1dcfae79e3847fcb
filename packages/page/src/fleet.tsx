// The pods: how each stands, which leads, which writes the reply, and what one may do to them.
import type { Snapshot } from '@fleetline/client'
import type { Scene, ScenePod } from '../../server/src/cli/dev/page/wire.ts'
import type { Act, Stage } from './scene.ts'
import { isRunningOn, podWords } from './words.ts'

type Props = {
  readonly scene: Scene
  readonly stage: Stage
  readonly turn: Snapshot['turn']
  /** Through which pod each device hears. */
  readonly hears: Readonly<Record<string, string | null>>
}

const ACTS: Readonly<Record<ScenePod['state'], readonly (readonly [Act, string])[]>> = {
  starting: [],
  ready: [
    ['kill', 'Kill'],
    ['pause', 'Pause 20 s'],
    ['restart', 'Restart'],
  ],
  paused: [
    ['kill', 'Kill'],
    ['wake', 'Wake'],
  ],
  waiting: [['restart', 'Restart']],
  ended: [],
}

export function Fleet({ scene, stage, turn, hears }: Props) {
  return (
    <div class="fleet">
      {scene.pods.map((pod) => {
        const devices = Object.keys(hears).filter((name) => hears[name] === pod.name)
        return (
          <PodCard
            key={pod.name}
            pod={pod}
            ttlMs={scene.ttlMs}
            turn={turn}
            devices={devices}
            act={stage.act}
          />
        )
      })}
    </div>
  )
}

type CardProps = {
  readonly pod: ScenePod
  readonly ttlMs: number
  readonly turn: Snapshot['turn']
  readonly devices: readonly string[]
  readonly act: Stage['act']
}

function PodCard({ pod, ttlMs, turn, devices, act }: CardProps) {
  const isRunning = pod.state === 'ready' && isRunningOn(turn, pod.name)
  const age = Math.min(1, (pod.beatAgeMs ?? 0) / ttlMs)
  return (
    <article class={`pod ${pod.state}`} aria-label={pod.name}>
      <header>
        <i class="dot" />
        {pod.name}
        {pod.number !== null && <small>no. {pod.number}</small>}
        {pod.isLeader && pod.state === 'ready' && (
          <span class="tag">leader{pod.term === null ? '' : ` · term ${pod.term}`}</span>
        )}
      </header>
      <p class={isRunning ? 'run' : ''}>{podWords(pod, turn, devices)}</p>
      <div class="bar" title={`its last beat, of the ${ttlMs / 1_000} s after which it is counted as dead`}>
        <i class={age > 0.5 ? 'late' : ''} style={{ transform: `scaleX(${age})` }} />
      </div>
      <div class="acts">
        {ACTS[pod.state].map(([wish, label]) => (
          <button
            key={wish}
            class={wish}
            aria-label={`${label} ${pod.name}`}
            onClick={() => act(pod.name, wish)}
          >
            {label}
          </button>
        ))}
      </div>
    </article>
  )
}
