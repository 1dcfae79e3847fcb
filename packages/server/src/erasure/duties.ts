// The leader's duties for erasures. Each works in small transactions, as many as there is time for; `fleetline_duty_seconds` shows them.
//   every 1 s   erases users, one after another: up to 20 sessions or 2,000 messages in a step (`fleetline_erased_messages_total`,
//               `fleetline_erased_sessions_total`)
//   every 1 s   wipes erased sessions: about 5,000 messages of up to 100 sessions in a step
//   every 5 s   expires sessions by the rules of retention: checks up to 1,000 in a step; after a round of a tenant, it waits one hour
//               (`fleetline_erased_sessions_total`)
//   every 60 s  deletes rows of sessions that were wiped 30 days ago: 1,000 in a step
// Only `expire sessions` checks the leader's term: it decides what is erased. The others carry out stored requests, so two pods may run them.
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { Duty } from '../store/leader.ts'
import type { Sessions } from '../session/sessions.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { notifyErased } from './erasures.ts'
import { claimTenant, databaseTime, expireNext } from './retention.ts'
import { eraseNextOfUser } from './user.ts'
import { deleteNext, wipeNext } from './wipe.ts'

type Deps = {
  readonly database: Transactions
  readonly metrics: Metrics
  readonly sessions: Pick<Sessions, 'stopTurn' | 'notifyChanged'>
  readonly onMembershipChanged: (tenant: number, user: string, session: string) => void
}

const [ERASE_MS, EXPIRE_MS, DELETE_MS] = [1_000, 5_000, 60_000]

export function erasureDuties(deps: Deps): Duty[] {
  const { database, metrics, sessions, onMembershipChanged } = deps
  const commit = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'A step of an erasure failed')
  const eraseUsers = async (hasTime: () => boolean) => {
    for (
      let step = await commit(eraseNextOfUser);
      step;
      step = hasTime() ? await commit(eraseNextOfUser) : undefined
    ) {
      notifyErased(deps, step.marked)
      for (const { tenant, user, session } of step.removed) onMembershipChanged(tenant, user, session)
      for (const key of step.changed) sessions.notifyChanged(key)
      metrics.count('erasedMessages', {}, step.messages)
      metrics.count('erasedSessions', { cause: 'request' }, step.marked.sessions.length)
    }
  }
  const wipe = async (hasTime: () => boolean) => {
    for (let hasMore = true; hasMore;) {
      const step = await commit(wipeNext)
      hasMore = step.hasMore && hasTime()
      for (const turn of step.live) await sessions.stopTurn(turn)
    }
  }
  const expire: Duty['run'] = async (term, hasTime) => {
    for (let isIdle = false; !isIdle && hasTime();) {
      const claimed = await commit(async (query) => {
        const now = await databaseTime(query)
        const tenant = await claimTenant(query, term, now)
        return tenant && { ...tenant, now }
      })
      isIdle = claimed === undefined
      const marked = claimed && (await commit((query) => expireNext(query, term, claimed)))
      if (marked) notifyErased(deps, marked)
      metrics.count('erasedSessions', { cause: 'retention' }, marked?.sessions.length ?? 0)
    }
  }
  const remove: Duty['run'] = async (_, hasTime) => {
    while (hasTime() && (await commit(async (query) => deleteNext(query, await databaseTime(query)))));
  }
  return [
    { name: 'erase users', everyMs: ERASE_MS, run: (_, hasTime) => eraseUsers(hasTime) },
    { name: 'wipe sessions', everyMs: ERASE_MS, run: (_, hasTime) => wipe(hasTime) },
    { name: 'expire sessions', everyMs: EXPIRE_MS, run: expire },
    { name: 'delete rows of erased sessions', everyMs: DELETE_MS, run: remove },
  ]
}
