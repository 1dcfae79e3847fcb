// The leader's duty for the audit log. Once a minute it deletes rows that are older than `auditDays`, and minted tokens that are
// older than 30 days: they are most of the rows. It deletes 1,000 in a step, and does as many steps as fit into two seconds. Each DELETE
// checks that this pod still leads. Metric: `fleetline_duty_seconds`.
import { valueOf, type Transactions } from '../store/database.ts'
import { IS_LEADER, type Duty } from '../store/leader.ts'

type Deps = { readonly database: Transactions; readonly auditDays: number }

const FORGET_MS = 60_000
const STEP = 1_000
const MINTED_DAYS = 30

// The oldest first, by their index.
const FORGET = `
  delete from fleetline.audit where id in (
    select id from fleetline.audit where at < now() - make_interval(days => $3) and ${IS_LEADER} order by at limit ${STEP})
  returning id`
// Looks at the 1,000 oldest minted tokens only, so a run that finds nothing to delete is cheap.
const FORGET_MINTED = `
  delete from fleetline.audit where id in (
    select o.id from (select id, at from fleetline.audit where action = 'token.mint' order by id limit ${STEP}) o
     where o.at < now() - make_interval(days => $3) and ${IS_LEADER})
  returning id`

export function identityDuties({ database, auditDays }: Deps): Duty[] {
  const forget: Duty['run'] = async ({ term, pod }, hasTime) => {
    for (const [sql, days] of [
      [FORGET, auditDays],
      [FORGET_MINTED, MINTED_DAYS],
    ] as const)
      for (let count = STEP; count === STEP && hasTime();) {
        const outcome = await database.transaction((query) => query(sql, [term, pod, days]))
        count = valueOf(outcome, 'Old rows of the audit log could not be deleted').length
      }
  }
  return [{ name: 'old audit rows', everyMs: FORGET_MS, run: forget }]
}
