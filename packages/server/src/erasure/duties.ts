// The leader's duties for erasures. Each works in small transactions, as many as there is time for; `fleetline_duty_seconds` shows them.
//   every 1 s   erases users, one after another: up to 20 sessions, 2,000 messages or 16 MiB in a step
//               (`fleetline_erased_messages_total`, `fleetline_erased_sessions_total`)
//   every 1 s   wipes erased sessions: about 5,000 messages or 16 MiB of up to 100 sessions in a step
//   every 5 s   expires sessions by the rules of retention: checks up to 1,000 in a step; after a round of a tenant, it waits one hour
//               (`fleetline_erased_sessions_total`)
//   every 60 s  deletes rows of sessions that were wiped 30 days ago: 1,000 in a step
// They run one at a time, so that the leader's other duties need not wait for them. If a step fails, the next ones are smaller. If a step with
// one item fails, this user or session waits for a minute, or for the next round of retention, and the others go on.
// Only `expire sessions` checks the leader's term: it decides what is erased. The others carry out stored requests, so two pods may run them.
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { Clock } from '../lib/clock.ts'
import type { Duty, Term } from '../store/leader.ts'
import type { SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { notifyErased } from './erasures.ts'
import { createPace, type Pace } from './pace.ts'
import { claimTenant, databaseTime, expireNext, PAGE, passNext } from './retention.ts'
import { eraseNextOfUser, WRITTEN_SESSIONS } from './user.ts'
import { deleteNext, restSessions, WIPE_SESSIONS, wipeNext, type OnFound } from './wipe.ts'

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly metrics: Metrics
  readonly sessions: Pick<Sessions, 'stopTurn' | 'notifyChanged'>
  readonly onMembershipChanged: (tenant: number, user: string, session: string) => void
}

const GROUP = 'erasing'
const REST_MS = 60_000
const [ERASE_MS, EXPIRE_MS, DELETE_MS] = [1_000, 5_000, 60_000]

export function erasureDuties(deps: Deps): Duty[] {
  const { metrics, sessions, onMembershipChanged } = deps
  const commit = committing(deps)
  const steps = createSteps(deps)
  const eraseUsers = async (hasTime: () => boolean) => {
    for (let step = await steps.eraseUser(); step; step = hasTime() ? await steps.eraseUser() : undefined) {
      notifyErased(deps, step.marked)
      for (const { tenant, user, session } of step.removed) onMembershipChanged(tenant, user, session)
      for (const key of step.changed) sessions.notifyChanged(key)
      metrics.count('erasedMessages', {}, step.messages)
      metrics.count('erasedSessions', { cause: 'request' }, step.marked.sessions.length)
    }
  }
  const wipe = async (hasTime: () => boolean) => {
    for (let hasMore = true; hasMore;) {
      const step = await steps.wipe()
      await Promise.allSettled(step.live.map((turn) => sessions.stopTurn(turn))) // if one fails, a later step tries again
      hasMore = step.hasMore && hasTime()
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
      const marked = claimed && (await steps.expire(term, claimed))
      if (marked) notifyErased(deps, marked)
      metrics.count('erasedSessions', { cause: 'retention' }, marked?.sessions.length ?? 0)
    }
  }
  const remove: Duty['run'] = async (_, hasTime) => {
    while (hasTime() && (await steps.remove()));
  }
  return [
    { name: 'erase users', group: GROUP, everyMs: ERASE_MS, run: (_, hasTime) => eraseUsers(hasTime) },
    { name: 'wipe sessions', group: GROUP, everyMs: ERASE_MS, run: (_, hasTime) => wipe(hasTime) },
    { name: 'expire sessions', group: GROUP, everyMs: EXPIRE_MS, run: expire },
    { name: 'delete rows of erased sessions', group: GROUP, everyMs: DELETE_MS, run: remove },
  ]
}

function committing({ database }: Pick<Deps, 'database'>) {
  return async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'A step of an erasure failed')
}

/** The steps that choose what they do by its place in a queue. One that fails puts the first item off, so that it does not hold up the others. */
function createSteps(deps: Pick<Deps, 'database' | 'clock'>) {
  const { clock } = deps
  const commit = committing(deps)
  const paces = {
    users: createPace(WRITTEN_SESSIONS),
    wipes: createPace(WIPE_SESSIONS),
    removals: createPace(1),
  }
  const slowed = new Map<number, Pace>() // of tenants whose step of retention has failed
  const resting = new Map<string, number>() // erasures of users, and until when they wait
  const skipped = () => {
    for (const [id, untilMs] of resting) if (untilMs <= clock.monotonicMs()) resting.delete(id)
    return [...resting.keys()]
  }
  const ofSessions = <T>(pace: Pace, step: (query: Query, most: number, onFound: OnFound) => Promise<T>) => {
    let found: readonly SessionKey[] = []
    return pace.run(
      (most) => commit((query) => step(query, most, (keys) => void (found = keys))),
      () => commit((query) => restSessions(query, found)),
    )
  }
  return {
    eraseUser: () => {
      let user: string | undefined
      const options = { skipped: skipped(), onFound: (id: string) => void (user = id) }
      const step = (most: number) => commit((query) => eraseNextOfUser(query, { ...options, most }))
      return paces.users.run(step, async () => {
        if (user !== undefined) resting.set(user, clock.monotonicMs() + REST_MS)
      })
    },
    /** Each tenant has its own pace: a claimed tenant waits for a minute if its step fails, and steps of others succeed meanwhile. */
    expire: (term: Term, claimed: Parameters<typeof expireNext>[2]) => {
      const pace = slowed.get(claimed.tenant) ?? createPace(PAGE)
      const step = (most: number) => commit((query) => expireNext(query, term, claimed, most))
      const pass = () => commit((query) => passNext(query, term, claimed))
      return pace.run(step, pass).catch((error: unknown) => {
        slowed.set(claimed.tenant, pace)
        throw error
      })
    },
    wipe: () => ofSessions(paces.wipes, (query, most, onFound) => wipeNext(query, { most, onFound })),
    remove: () =>
      ofSessions(paces.removals, async (query, _, onFound) =>
        deleteNext(query, await databaseTime(query), onFound),
      ),
  }
}
