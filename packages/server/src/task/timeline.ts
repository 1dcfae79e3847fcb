// The way of a task through its machine, for people: every transition with what is known of it. Pure.
//   the transition            of a task that lives                          of one that ended
//   is recorded               done                                          done
//   is where it stands        running, waiting, held or dead                failed, cancelled; skipped after a hand-off
//   comes behind that         ahead                                         skipped
// One whose transitions are all recorded stands at its `end`, until that is done.
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
  done: 'done', // of a task of one handler, which records nothing
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
