// The leader's duty for the audit log. Once a minute it deletes rows that are older than `auditDays`, and those of minted
// tokens and of unknown callers that are older than 30 days: they are most of the rows. It deletes 1,000 in a step, and does as many steps as fit into two seconds. Each DELETE
// checks that this pod still leads. Metric: `fleetline_duty_seconds`.
import { valueOf, type Transactions } from '../store/database.ts'
import { IS_LEADER, type Duty } from '../store/leader.ts'

type Deps = { readonly database: Transactions; readonly auditDays: number }

const FORGET_MS = 60_000
const STEP = 1_000
const MANY_DAYS = 30

// The oldest first, by their index.
const FORGET = `
  delete from fleetline.audit where id in (
    select id from fleetline.audit where at < now() - make_interval(days => $3) and ${IS_LEADER} order by at limit ${STEP})
  returning id`
// Rows of which there are many: minted tokens, and refused requests of callers that nobody knows. Looks at the oldest 1,000 of them only,
// so a run that finds nothing to delete is cheap. A range and this order, because PostgreSQL then reads by the index of the column.
const forgetBy = (column: 'action' | 'actor', value: string) => `
  delete from fleetline.audit where id in (
    select o.id from (select id, at from fleetline.audit where ${column} between '${value}' and '${value}'
                       order by ${column}, id limit ${STEP}) o
     where o.at < now() - make_interval(days => $3) and ${IS_LEADER})
  returning id`
const FORGET_MINTED = forgetBy('action', 'token.mint')
const FORGET_STRANGERS = forgetBy('actor', 'nobody')

export function identityDuties({ database, auditDays }: Deps): Duty[] {
  const all = [
    [FORGET, auditDays],
    [FORGET_MINTED, MANY_DAYS],
    [FORGET_STRANGERS, MANY_DAYS],
  ] as const
  const forget: Duty['run'] = async ({ term, pod }, hasTime) => {
    for (const [sql, days] of all)
      for (let count = STEP; count === STEP && hasTime();) {
        const outcome = await database.transaction((query) => query(sql, [term, pod, days]))
        count = valueOf(outcome, 'Old rows of the audit log could not be deleted').length
      }
  }
  return [{ name: 'old audit rows', everyMs: FORGET_MS, run: forget }]
}
