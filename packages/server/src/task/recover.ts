// The claims of pods that are no more go back into the queue. Guarantees:
//   Q4  nothing but a claim is returned: what has ended, waits, is held or is dead stays as it is
//   P1  a claim is returned once, whoever believes that it leads: the first write ends it, and every write names the term
//   Q6  a loss counts as an attempt, so that a task which kills its pods ends as dead
//
//   the loss                                the row
//   was its last attempt                    dead
//   is the second or later in a row         waiting, longer each time, as a suspect: it may be what kills the pods
//   any other                               ready at once, at the place that it had
import type { Query } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'

export type Returned = {
  readonly id: string
  readonly attempt: number
  readonly state: 'ready' | 'waiting' | 'dead'
}

export const MOST_RETURNED = 1_000

// $1 term · $2 the leader's pod · $3 at most so many. Who holds claims is found by steps along the index, one per holder:
// however many claims the living have, they are not read. Gone is who is dead or forgotten; both are for ever, so that a
// row found under that number, also after waiting for it, is a claim of the dead. State and pod stand in the UPDATE
// too: a row that was settled meanwhile is left alone, whatever way the plan found it.
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

/** One step: at most so many of them. */
export async function recover(query: Query, { term, pod }: Term): Promise<Returned[]> {
  return query<Returned>(RECOVER, [term, pod, MOST_RETURNED])
}
