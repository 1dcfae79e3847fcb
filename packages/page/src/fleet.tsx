// The pods: the state of each, which one leads, which one writes the reply, and buttons to kill, pause and restart them.
import type { Act, Scene, ScenePod } from '../../server/src/cli/dev/page/wire.ts'
import type { Stage } from './scene.ts'
import { isWriting, podWords, type Reply } from './words.ts'

type Props = {
  readonly scene: Scene
  readonly stage: Stage
  readonly reply: Reply
  /** By device: the pod through which it reads. */
  readonly hears: Readonly<Record<string, string | null>>
}

export function Fleet({ scene, stage, reply, hears }: Props) {
  return (
    <div class="fleet">
      {scene.pods.map((pod) => {
        const devices = Object.keys(hears).filter((name) => hears[name] === pod.name)
        return (
          <PodCard key={pod.name} pod={pod} scene={scene} reply={reply} devices={devices} act={stage.act} />
        )
      })}
    </div>
  )
}

type CardProps = Omit<Props, 'stage' | 'hears'> & {
  readonly pod: ScenePod
  readonly devices: readonly string[]
  readonly act: Stage['act']
}

function PodCard({ pod, scene: { ttlMs, pauseMs }, reply, devices, act }: CardProps) {
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
      <p class={isWriting(pod, reply) ? 'run' : ''}>{podWords(pod, reply, devices)}</p>
      <div class="bar" title={`Its last beat, of the ${ttlMs / 1_000} s after which it is counted as dead.`}>
        <i class={age > 0.5 ? 'late' : ''} style={{ transform: `scaleX(${age})` }} />
      </div>
      <Acts pod={pod} pauseMs={pauseMs} act={act} />
    </article>
  )
}

type ActsProps = { readonly pod: ScenePod; readonly pauseMs: number; readonly act: Stage['act'] }

/** Always the same three buttons, so that none disappears under a finger or loses the focus. */
function Acts({ pod: { name, state }, pauseMs, act }: ActsProps) {
  const isPaused = state === 'paused'
  const isUp = state === 'ready' || isPaused
  const buttons: readonly (readonly [wish: Act, label: string, can: boolean])[] = [
    ['kill', 'Kill', isUp],
    isPaused ? ['wake', 'Wake', true] : ['pause', `Pause ${pauseMs / 1_000} s`, isUp],
    ['restart', 'Restart', isUp || state === 'waiting'],
  ]
  return (
    <div class="acts">
      {buttons.map(([wish, label, can], index) => (
        <button
          key={index}
          class={wish}
          aria-label={`${label} ${name}`}
          disabled={!can}
          onClick={() => act(name, wish)}
        >
          {label}
        </button>
      ))}
    </div>
  )
}
