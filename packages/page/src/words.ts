// How the page says where a pod, a device or a reply stands. Pure.
import type { Snapshot } from '@fleetline/client'
import type { ScenePod } from '../../server/src/cli/dev/page/wire.ts'
import { seconds } from './trail.ts'

export type Tone = 'good' | 'warn' | 'bad'
type Turn = Snapshot['turn']

/** The line of a pod's card. `devices`: those that hear through it. */
export function podWords(pod: ScenePod, turn: Turn, devices: readonly string[]): string {
  switch (pod.state) {
    case 'ready': {
      if (isRunningOn(turn, pod.name)) return `writes the reply · attempt ${turn!.attempt}`
      const beat = pod.beatAgeMs === null ? 'joins the fleet' : `beat ${seconds(pod.beatAgeMs)} ago`
      return [beat, ...devices].join(' · ')
    }
    case 'paused':
      return `paused · wakes in ${Math.ceil((pod.wakesInMs ?? 0) / 1_000)} s${pod.isBuried ? ' · counted as dead' : ''}`
    case 'waiting': {
      const how = pod.how === 'SIGKILL' ? 'killed' : 'ended'
      return `${how} ${seconds(pod.endedAgoMs ?? 0)} ago${pod.isBuried ? ' · buried' : ''}`
    }
    case 'starting':
      return 'starts'
    case 'ended':
      return 'has ended'
  }
}

export function isRunningOn(turn: Turn, pod: string): boolean {
  return turn?.state === 'running' && turn.pod === pod
}

/** Why the live turn does not go on right now; null: it does, or there is none. */
export function haltWords(turn: Turn, pods: readonly ScenePod[]): string | null {
  if (!turn || turn.endedAt !== null) return null
  if (turn.state === 'queued') return turn.attempt === 0 ? null : 'waits for a pod'
  const pod = pods.find(({ name }) => name === turn.pod)
  if (!pod || pod.state === 'ready') return null
  return pod.state === 'paused'
    ? 'is paused: another pod will take over'
    : 'is gone: another pod will take over'
}

export function linkWords(
  { connection, refusal }: Pick<Snapshot, 'connection' | 'refusal'>,
  pod: string | null,
  home: string | undefined,
): readonly [Tone, string] {
  switch (connection) {
    case 'live':
      return pod === home ? ['good', pod ?? 'live'] : ['warn', `moved to ${pod}`]
    case 'connecting':
      return ['warn', 'connects']
    case 'stale':
      return ['warn', 'reconnects']
    case 'offline':
      return ['bad', 'offline']
    case 'refused':
      return ['bad', refusal?.text ?? 'refused']
  }
}
