// This pod as leader: looks at the fleet after each beat, takes or gives up the term as election.ts decides, and has two
// duties of its own, burying pods that beat no more and forgetting those long dead. A take whose answer was lost is
// found at the next look: the leader's row names this incarnation.
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Duty } from './duties.ts'
import { decide, type View } from './election.ts'
import { bury, forget, giveUp, look, take, type Term } from './pods.ts'
import type { Trust } from './trust.ts'

export type Leader = {
  /** Looks, and acts on what it saw in the name of this pod. */
  follow(query: Query, me: number): Promise<void>
  /** The term that it holds, as far as it knows. */
  term(): Term | undefined
  /** This incarnation has ended. */
  lose(): void
}
type Deps = {
  readonly database: Transactions
  readonly trust: Trust
  readonly metrics: Metrics
  readonly log: Log
  readonly beatMs: number
  readonly ttlMs: number
  readonly stopMs: number
}

const FORGET_MS = 60_000

export function createLeader({ trust, metrics, log, ttlMs }: Deps): Leader {
  let view: View | undefined
  let held: Term | undefined
  const hold = (term: Term | undefined) => {
    if (term && term.term !== held?.term) log.info('leads the fleet', { pod: term.pod, term: term.term })
    if (!term && held) log.info('leads no more', { pod: held.pod, term: held.term })
    held = term
  }
  const count = (state: string) => view?.members.filter((member) => member.state === state).length ?? 0
  metrics.gauge('pods', () => ['live', 'draining'].map((state) => [{ state }, count(state)] as const))
  metrics.gauge('leads', () => [[{}, held ? 1 : 0]])
  metrics.gauge('term', () => [[{}, view?.term ?? 0]])
  return {
    term: () => held,
    lose: () => hold(undefined),
    follow: async (query, me) => {
      view = await look(query)
      const decision = decide(view, { id: me, mayJudge: trust.mayJudge() }, ttlMs)
      if (decision === 'give-up') await giveUp(query, me)
      const taken = decision === 'take' ? await take(query, me, view.term) : undefined
      if (taken) metrics.observe('leaderless', {}, taken.leaderlessMs)
      hold(decision === 'lead' ? { term: view.term, pod: me } : taken)
    },
  }
}

export function ownDuties({ database, trust, metrics, log, beatMs, ttlMs, stopMs }: Deps): Duty[] {
  const limits = { deadlineMs: stopMs }
  const buryDead = async (term: Term) => {
    if (!trust.mayJudge()) return
    const outcome = await database.transaction((query) => bury(query, term, ttlMs), limits)
    for (const { id, ageMs } of valueOf(outcome, 'No pod could be buried')) {
      metrics.observe('detection', {}, ageMs)
      log.warn('counts a pod as dead', { pod: id, term: term.term, duration_ms: Math.round(ageMs) })
    }
  }
  const forgetDead = async (term: Term) => {
    valueOf(await database.transaction((query) => forget(query, term), limits), 'No pod could be forgotten')
  }
  return [
    { name: 'bury', everyMs: beatMs, run: buryDead },
    { name: 'forget', everyMs: FORGET_MS, run: forgetDead },
  ]
}
