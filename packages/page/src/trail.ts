// The attempts of a reply, as a device saw them. Pure: takes a turn and its open reply on each change, with the time.
import type { Snapshot } from '@fleetline/client'

type Attempt = {
  readonly attempt: number
  readonly pod: string
  /** When the device learnt of it. */
  readonly atMs: number
  /** The time of its first word; null if it has said none here. */
  readonly firstMs: number | null
  /** The time of its last sign of life. */
  readonly lastMs: number
}
export type Trail = {
  readonly turn: string
  readonly attempts: readonly Attempt[]
  /** The reply as last received, to notice when it grows. */
  readonly said: unknown
}
/** What is shown of an attempt: either it was lost, or it is the one that counts. */
type Mark = { readonly isLost: boolean; readonly text: string }

export function follow(trail: Trail | null, { turn, messages }: Snapshot, nowMs: number): Trail | null {
  if (!turn) return null
  const past: Trail = trail?.turn === turn.id ? trail : { turn: turn.id, attempts: [], said: undefined }
  const said = messages.find((message) => message.delivery === 'open')
  const attempts = turn.state === 'running' && turn.pod ? begun(past.attempts, turn, nowMs) : past.attempts
  if (said === past.said || said === undefined || attempts.length === 0)
    return attempts === past.attempts ? past : { ...past, attempts }
  const last = attempts.at(-1)!
  const heard = { ...last, firstMs: last.firstMs ?? nowMs, lastMs: nowMs }
  return { ...past, attempts: [...attempts.slice(0, -1), heard], said }
}

/** `isHalted`: the last attempt does not continue, either. */
export function marksOf({ attempts }: Trail, isHalted: boolean): readonly Mark[] {
  return attempts.map((attempt, index) => {
    const isLost = isHalted || index < attempts.length - 1
    return { isLost, text: isLost ? lastedOf(attempt) : wordsOf(attempt, attempts[index - 1]) }
  })
}

function lastedOf({ pod, atMs, lastMs }: Attempt): string {
  return `${pod} · ${seconds(lastMs - atMs)}`
}

function wordsOf({ pod, attempt, firstMs }: Attempt, before: Attempt | undefined): string {
  if (!before) return attempt === 1 ? pod : `${pod} · attempt ${attempt}`
  if (firstMs === null) return `${pod} takes over`
  return `resumed on ${pod} after ${seconds(firstMs - before.lastMs)}`
}

export function seconds(ms: number): string {
  return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`
}

type Running = { readonly attempt: number; readonly pod: string | null }

function begun(attempts: readonly Attempt[], { attempt, pod }: Running, nowMs: number): readonly Attempt[] {
  const last = attempts.at(-1)
  if (last && last.attempt >= attempt) return attempts
  return [...attempts, { attempt, pod: pod!, atMs: nowMs, firstMs: null, lastMs: nowMs }]
}
