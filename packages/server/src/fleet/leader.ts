// This pod as leader. After each beat it looks at the fleet and takes or gives up the term as election.ts decides. While it
// leads, it buries silent pods: it counts them as dead. All of this runs on the connection of the beat, so no other work can
// delay it. If the answer to a take is lost, the next look finds the result: the leader's row names this incarnation.
// Deleting pods that died more than an hour ago is an ordinary duty, once a minute.
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Duty, Term } from '../store/leader.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { decide, type Member, type View } from './election.ts'
import type { Clock } from '../lib/clock.ts'
import { bury, forget, giveUp, look, take } from './pods.ts'
import { createSilence } from './silence.ts'
import type { Trust } from './trust.ts'

type Leader = {
  /** Looks at the fleet, and acts on it for this pod. */
  follow(query: Query, me: number): Promise<void>
  /** The term that this pod holds, as far as it knows. */
  term(): Term | undefined
  /** Gives up the term locally, because this incarnation has ended. */
  lose(): void
}
type Deps = {
  readonly clock: Clock
  readonly trust: Trust
  readonly metrics: Metrics
  readonly log: Log
  readonly ttlMs: number
}

const FORGET_MS = 60_000

export function createLeader({ clock, trust, metrics, log, ttlMs }: Deps): Leader {
  const silence = createSilence(clock)
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
  const lookAgain = async (query: Query): Promise<View> => {
    const sentMs = clock.monotonicMs()
    const seen = await look(query)
    const silentMs = silence.saw(seen.members, sentMs)
    return { ...seen, members: seen.members.map((pod, n) => ({ ...pod, silentMs: silentMs[n]! })) }
  }
  const buryDead = async (query: Query, term: Term, members: readonly Member[]) => {
    const silent = members.filter(({ id, silentMs }) => id !== term.pod && silentMs > ttlMs)
    if (silent.length === 0 || !trust.mayJudge()) return
    const buried = new Set(await bury(query, term, silent))
    for (const { id, silentMs } of silent.filter((pod) => buried.has(pod.id))) {
      metrics.observe('detection', {}, silentMs)
      log.warn('counts a pod as dead', { pod: id, term: term.term, duration_ms: Math.round(silentMs) })
    }
  }
  return {
    term: () => held,
    lose: () => hold(undefined),
    follow: async (query, me) => {
      view = await lookAgain(query)
      const decision = decide(view, { id: me, mayJudge: trust.mayJudge() }, ttlMs)
      if (decision === 'give-up') await giveUp(query, me)
      const taken = decision === 'take' ? await take(query, me, view.term) : undefined
      if (taken) metrics.observe('leaderless', {}, taken.leaderlessMs)
      hold(decision === 'lead' ? { term: view.term, pod: me } : taken)
      if (held) await buryDead(query, held, view.members)
    },
  }
}

export function ownDuties({ database }: { readonly database: Transactions }): Duty[] {
  const forgetDead = async (term: Term) => {
    valueOf(await database.transaction((query) => forget(query, term)), 'No pod could be forgotten')
  }
  return [{ name: 'forget', everyMs: FORGET_MS, run: forgetDead }]
}
