// Returns the claims of dead pods to the queue. Guarantees:
//   Q4  it changes only claims: tasks that have ended, wait, are held or are dead stay as they are
//   P1  a claim is returned once, even if several pods think that they lead: the first write ends the claim, and every write
//       names the term
//   Q6  a lost pod counts as an attempt, so a task that kills its pods ends as dead
//
//   the loss                                the row becomes
//   was its last attempt                    dead
//   is the second or later in a row         waiting, longer each time, as a suspect: the task itself may kill its pods
//   any other                               ready at once, at its old place
import type { Query } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'

export type Returned = {
  readonly id: string
  readonly attempt: number
  readonly state: 'ready' | 'waiting' | 'dead'
}

export const MOST_RETURNED = 1_000

// $1 term · $2 the leader's pod · $3 the most claims to return. Pods that hold claims are found by steps along the index, one
// step per pod, so claims of live pods are not read, however many there are. A pod is gone if it is dead or its row is deleted.
// Both are final, so a row that names such a pod is always a claim of a dead pod, even if the statement waited for the row. The
// UPDATE checks state and pod again: a row that was settled in the meantime is left alone, whichever plan found it.
const RECOVER = `
  with recursive holders as (
    (select pod from fleetline.tasks where state = 'claimed' order by pod limit 1)
    union all
    select (select t.pod from fleetline.tasks t where t.state = 'claimed' and t.pod > h.pod order by t.pod limit 1)
      from holders h where h.pod is not null),
  gone as (
    select h.pod from holders h
     where h.pod is not null
       and not exists (select from fleetline.pods p where p.id = h.pod and p.state <> 'dead')),
  lost as (
    select ctid as tid from fleetline.tasks
     where state = 'claimed' and pod = any (array(select pod from gone)) limit $3 for update skip locked)
  update fleetline.tasks t
     set pod = null, claimed_at = null,
         state = (case when t.spent >= t.max_attempts then 'dead'
                       when t.reason in ('pod_lost', 'suspect') then 'waiting' else 'ready' end)::fleetline.task_state,
         reason = case when t.spent < t.max_attempts and t.reason in ('pod_lost', 'suspect') then 'suspect'
                       else 'pod_lost' end,
         run_at = now() + case when t.reason in ('pod_lost', 'suspect')
                               then least(900, 2 ^ least(t.spent - 1, 10)) * (0.5 + random() / 2) * interval '1 second'
                               else interval '0' end,
         error = fleetline.fault(t.error, jsonb_build_object(
           'code', 'pod_lost', 'message', 'The pod that ran it is dead', 'pod', t.pod, 'attempt', t.attempt,
           'at', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
   where t.ctid = any (array(select tid from lost))
     and t.state = 'claimed' and t.pod = any (array(select pod from gone))
     and ${IS_LEADER}
  returning t.id, t.attempt, t.state`

/** One step: returns at most `MOST_RETURNED` claims. */
export async function recover(query: Query, { term, pod }: Term): Promise<Returned[]> {
  return query<Returned>(RECOVER, [term, pod, MOST_RETURNED])
}
