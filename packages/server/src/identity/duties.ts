// The leader's duty for the audit log. Once a minute it deletes rows that are older than `auditDays`, 1,000 in a step and as many
// steps as fit into two seconds. It names its term, so a leader that was replaced deletes nothing. The metric `dutyTime` shows
// every run.
import { valueOf, type Transactions } from '../store/database.ts'
import { IS_LEADER, type Duty } from '../store/leader.ts'

type Deps = { readonly database: Transactions; readonly auditDays: number }

const FORGET_MS = 60_000
const STEP = 1_000

// The oldest first, by their index.
const FORGET = `
  delete from fleetline.audit where id in (
    select id from fleetline.audit where at < now() - make_interval(days => $3) and ${IS_LEADER} order by at limit ${STEP})
  returning id`

export function identityDuties({ database, auditDays }: Deps): Duty[] {
  const forget: Duty['run'] = async ({ term, pod }, hasTime) => {
    for (let count = STEP; count === STEP && hasTime();) {
      const outcome = await database.transaction((query) => query(FORGET, [term, pod, auditDays]))
      count = valueOf(outcome, 'Old rows of the audit log could not be deleted').length
    }
  }
  return [{ name: 'old audit rows', everyMs: FORGET_MS, run: forget }]
}
