// The leader's duties for identity. Once a minute they delete 1,000 rows in a step, in as many steps as fit into two seconds. Each DELETE checks
// that this pod still leads. Metric: `fleetline_duty_seconds`.
//   old audit rows   those that are older than `auditDays`, and those of minted tokens and of unknown callers that are older than 30 days: they are
//                    most of the rows
//   old token cuts   those before which no token is valid any more
//   old tickets      those that have expired
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

// Longer than any token is valid, with the difference between clocks. So the id of an erased user goes by itself. By the index of cut_at.
const FORGET_CUTS = `
  delete from fleetline.token_cuts where (tenant, user_id) in (
    select tenant, user_id from fleetline.token_cuts where cut_at < now() - make_interval(hours => $3) and ${IS_LEADER}
     order by cut_at limit ${STEP} for update skip locked)
  returning user_id`
const CUT_HOURS = 25
// By the index of expires_at.
const FORGET_TICKETS = `
  delete from fleetline.tickets where digest in (
    select digest from fleetline.tickets where expires_at < now() and ${IS_LEADER}
     order by expires_at limit ${STEP} for update skip locked)
  returning digest`

export function identityDuties({ database, auditDays }: Deps): Duty[] {
  const forget = (name: string, all: readonly (readonly [sql: string, ...age: number[]])[]): Duty => ({
    name,
    everyMs: FORGET_MS,
    run: async ({ term, pod }, hasTime) => {
      for (const [sql, ...age] of all)
        for (let count = STEP; count === STEP && hasTime();) {
          const outcome = await database.transaction((query) => query(sql, [term, pod, ...age]))
          count = valueOf(outcome, `The duty "${name}" could not delete rows`).length
        }
    },
  })
  return [
    forget('old audit rows', [
      [FORGET, auditDays],
      [FORGET_MINTED, MANY_DAYS],
      [FORGET_STRANGERS, MANY_DAYS],
    ]),
    forget('old token cuts', [[FORGET_CUTS, CUT_HOURS]]),
    forget('old tickets', [[FORGET_TICKETS]]),
  ]
}
