// The way of a task through its machine, for people: every transition with what is known about it. Pure.
//   the transition            in a live task                                in an ended task
//   is recorded               done                                          done
//   is the current one        running, waiting, held or dead                failed, cancelled; skipped after a hand-off
//   comes after it            ahead                                         skipped
// A task whose transitions are all recorded is at its `end` until it is done.
import type { Task, TaskState, TaskStep } from '@fleetline/protocol'
import type { Carry } from './claim.ts'

type Known = Pick<Task, 'state' | 'via'> & {
  readonly names: readonly string[]
  readonly position: number
  readonly carry: Carry | null
}

const STANDS: Readonly<Record<TaskState, TaskStep['state']>> = {
  ready: 'waiting',
  waiting: 'waiting',
  claimed: 'running',
  held: 'held',
  dead: 'dead',
  failed: 'failed',
  cancelled: 'cancelled',
  done: 'done', // a task with one handler records nothing
}
const ENDED: ReadonlySet<string> = new Set<TaskState>(['done', 'failed', 'cancelled'])

export function timelineOf({ names, position, carry, state, via }: Known): TaskStep[] {
  const stateAt = (index: number): TaskStep['state'] => {
    if (index < position) return 'done'
    if (index > position) return ENDED.has(state) ? 'skipped' : 'ahead'
    return via === 'handoff' ? 'skipped' : STANDS[state]
  }
  const all = position >= names.length && state !== 'done' ? [...names, 'end'] : names
  return all.map((name, index) => {
    const { value = null, at = null, attempt = null, ms = null } = carry?.[name] ?? {}
    return { name, state: stateAt(index), at, attempt, ms, value }
  })
}
