// A task as lists show it: the columns that are read for live and for ended tasks, and the conversion of a row.
import { formatId, type TaskSummary } from '@fleetline/protocol'

export const TRACKED = `join fleetline.tracks k on k.id = t.track join fleetline.queues q on q.id = k.queue
  left join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape`
const BOTH = `t.id, q.name as queue, k.machine, t.priority, t.attempt, t.spent, t.pod, t.created_at as "createdAt",
  t.claimed_at as "claimedAt", t.error ->> 'code' as code`
export const OF_LIVE = `${BOTH}, t.state::text as state, t.reason, t.max_attempts as "maxAttempts", t.run_at as "runAt",
  null::timestamptz as "endedAt", case when k.shape <> '' then coalesce(s.names[t.position + 1], 'end') end as transition`
export const OF_ENDED = `${BOTH}, t.outcome as state, null::text as reason, null::smallint as "maxAttempts",
  null::timestamptz as "runAt", t.settled_at as "endedAt", null::text as transition`

type Times = Record<'runAt' | 'claimedAt' | 'endedAt', Date | null> & { readonly createdAt: Date }
export type TaskRow = Omit<TaskSummary, 'id' | keyof Times> & Times & { readonly id: string }

export function summaryOf(cell: number, row: TaskRow): TaskSummary {
  return {
    id: formatId('task', cell, row.id),
    queue: row.queue,
    machine: row.machine,
    state: row.state,
    reason: row.reason,
    transition: row.transition,
    priority: row.priority,
    attempt: row.attempt,
    spent: row.spent,
    maxAttempts: row.maxAttempts,
    pod: row.pod,
    createdAt: row.createdAt.toISOString(),
    runAt: row.runAt && row.runAt.toISOString(),
    claimedAt: row.claimedAt && row.claimedAt.toISOString(),
    endedAt: row.endedAt && row.endedAt.toISOString(),
    code: row.code,
  }
}
