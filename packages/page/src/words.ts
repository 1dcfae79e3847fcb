// The page's phrases for the state of a pod, a device or a reply. Pure.
import type { Snapshot } from '@fleetline/client'
import type { ScenePod } from '../../server/src/cli/dev/page/wire.ts'
import { seconds } from './trail.ts'

type Tone = 'good' | 'warn' | 'bad'
/** The live turn or the last one, and since when this device knows its attempt. */
export type Reply = { readonly turn: Snapshot['turn']; readonly sinceMs: number }

/** The line on a pod's card. `devices`: those that receive events through it. */
export function podWords(pod: ScenePod, reply: Reply, devices: readonly string[]): string {
  switch (pod.state) {
    case 'ready': {
      if (isWriting(pod, reply)) return `writes the reply · attempt ${reply.turn!.attempt}`
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
    case 'ending':
      return 'hands back what it has, and ends'
    case 'ended':
      return 'has ended'
  }
}

/** Whether the pod's current process writes the reply: a process started since then has only the same name. */
export function isWriting({ name, state, readySinceMs }: ScenePod, { turn, sinceMs }: Reply): boolean {
  const isThisLife = readySinceMs !== null && readySinceMs <= sinceMs
  return turn?.state === 'running' && turn.pod === name && state === 'ready' && isThisLife
}

/** Why the live turn does not continue right now; null if it does, or if there is none. */
export function haltWords(reply: Reply, pods: readonly ScenePod[], nowMs: number): string | null {
  const { turn } = reply
  if (!turn || turn.endedAt !== null) return null
  if (turn.state === 'queued') return turn.attempt === 0 ? null : waitWords(turn, nowMs)
  const pod = pods.find(({ name }) => name === turn.pod)
  if (!pod || isWriting(pod, reply) || pod.state === 'ending') return null
  const what = pod.state === 'paused' ? 'is paused' : 'is gone'
  return `${what}: the turn waits until it is counted as dead`
}

/** What a live turn that says nothing waits for. */
export function waitWords(turn: NonNullable<Reply['turn']>, nowMs: number): string {
  const { state, agent, waitsFor, retryAt } = turn
  if (state === 'running') return `waits for the first words of the agent ${agent}`
  const again = retryAt === null ? '' : ` · next attempt in ${seconds(Date.parse(retryAt) - nowMs)}`
  if (waitsFor === null) return 'waits for a pod'
  if (waitsFor === 'agent_unknown') return `waits: no pod has the agent ${agent}${again}`
  if (waitsFor === 'rate_limited') return `waits: the agent ${agent} is at its limit${again}`
  if (waitsFor === 'later') return `waits: the agent ${agent} asked to be called later${again}`
  return `waits after an error (${waitsFor})${again}`
}

export function linkWords(
  { connection, refusal }: Pick<Snapshot, 'connection' | 'refusal'>,
  pod: string | null,
  home: string | undefined,
): readonly [Tone, string] {
  switch (connection) {
    case 'live':
      return home === undefined || pod === home ? ['good', pod ?? 'live'] : ['warn', `moved to ${pod}`]
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
