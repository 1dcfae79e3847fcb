// This process as a pod among pods. At each beat, on one connection, it shows that it is alive, looks at the other pods, and
// leads if it is its turn. Beats use the database's clock, trust uses the pod's own. *Buried* means: the leader has counted
// the pod as dead.
//   this process   event                                becomes
//   –              start                                live, under a new id (P7)
//   live           beat confirmed                       live, trusted
//   live           beats fail                           live, fenced after ttl − margin: it starts nothing (P3)
//   live           its beat changes no row: buried      live, under a new id; what ran under the old id is aborted
//   live           drain                                draining: it gives up its term and goes on beating
//   draining       undrain                              live, from its next beat on
//   draining       its beat changes no row: buried      dead if it stops; otherwise draining, under a new id
//   any            stop                                 dead: it writes this itself
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import { compose, type Service } from '../lib/lifecycle.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Incarnation } from '../store/incarnation.ts'
import type { Duty } from '../store/leader.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createDuties } from './duties.ts'
import { createLeader, ownDuties } from './leader.ts'
import { createLink } from './link.ts'
import { beat, drain, join, leave, list, type Clients, type PodRow } from './pods.ts'
import { createTrust } from './trust.ts'

export type Fleet = Service & {
  /** Undefined before the start, and after the pod was buried while draining. */
  self(): Incarnation | undefined
  /** Whether the pod must not start anything now. */
  isFenced(): boolean
  /** Milliseconds since just before the last confirmed beat was sent. */
  beatAgeMs(): number
  /** From now on this pod takes nothing new. Never rejects: if the write fails, the next beat writes it. */
  drain(): Promise<void>
  /** It takes new work again, from its next beat on. */
  undrain(): void
  /** From now on this pod does not join again after it was counted as dead. */
  end(): void
  pods(): Promise<PodRow[]>
}
type Deps = {
  readonly databaseUrl: string
  readonly database: Transactions
  readonly clock: Clock
  readonly metrics: Metrics
  readonly log: Log
  readonly name: string
  readonly version: string
  /** The tracks that this pod claims; known before the fleet starts. */
  readonly tracks: () => readonly number[]
  readonly beatMs: number
  readonly ttlMs: number
  readonly stopMs: number
  readonly drainMs?: number
  /** The clients that are connected now. */
  readonly clients?: () => Clients
  /** Called when an operator asks for a drain of this pod, or takes that back. */
  readonly onDrainAsked?: (isAsked: boolean) => void
  /** The duties of other rooms. */
  readonly duties: readonly Duty[]
}
type Life = Incarnation & { readonly end: (reason: Error) => void }

const BURIED = new Error('This pod was counted as dead')
const LEAST_BEATS = 3 // in one ttl, so that one lost beat does not make a pod count as dead

export function createFleet(deps: Deps): Fleet {
  const { database, clock, metrics, log, ttlMs, beatMs, stopMs } = deps
  if (ttlMs < LEAST_BEATS * beatMs)
    throw new Rejected('invalid', `FLEETLINE_TTL_MS must be at least ${LEAST_BEATS} times FLEETLINE_BEAT_MS`)
  const trust = createTrust(deps, clock)
  const leader = createLeader({ ...deps, trust })
  const link = createLink({ databaseUrl: deps.databaseUrl, clock, statementMs: Math.min(ttlMs, stopMs) })
  const { name, version, drainMs = 0 } = deps
  let life: Life | undefined
  let [isDraining, isEnding, isDrainAsked] = [false, false, false]
  const newcomer = () => ({ name, version, drainMs, isDraining, isDrainAsked, tracks: deps.tracks() })
  let isSilent = false

  const begin = (id: number, sentMs: number): Life => {
    const ending = new AbortController()
    trust.confirm(sentMs)
    log.info('joined the fleet', { pod: id })
    return { id, signal: ending.signal, end: (reason) => ending.abort(reason) }
  }
  const buried = (dead: Life) => {
    log.warn('counted as dead by the others', { pod: dead.id })
    trust.reset()
    leader.lose()
    life = undefined
    dead.end(BURIED)
  }
  const tick = async (query: Query) => {
    const sentMs = clock.monotonicMs()
    const told = life && (await beat(query, life.id, { clients: deps.clients?.(), isDraining }))
    if (told) trust.confirm(sentMs)
    else if (life) buried(life)
    if (!life && isEnding) return
    life ??= begin(await join(query, newcomer()), sentMs)
    if (told) heed(told.isDrainAsked)
    if (isSilent) log.info('beats come through again')
    isSilent = false
    await leader.follow(query, life.id)
  }
  const heed = (isAsked: boolean) => {
    if (isAsked === isDrainAsked) return
    isDrainAsked = isAsked
    deps.onDrainAsked?.(isAsked)
  }
  const missed = (error: unknown) => {
    trust.miss()
    if (!isSilent) log.warn('a beat did not come through', { error })
    isSilent = true
  }
  const write = async (work: (query: Query, pod: number) => Promise<void>) => {
    const me = life
    if (!me) return
    const outcome = await database.transaction((query) => work(query, me.id), { deadlineMs: stopMs })
    if (outcome.type !== 'committed')
      log.warn('the row of this pod was not written', { pod: me.id, error: outcome.error })
  }
  const lives: Service = {
    name: 'fleet.life',
    start: async () => {
      const sentMs = clock.monotonicMs()
      const outcome = await database.transaction((query) => join(query, newcomer()))
      life = begin(valueOf(outcome, 'The pod could not join the fleet'), sentMs)
    },
    stop: async () => {
      await write(leave)
      life?.end(new Error('The pod stops'))
      link.close()
    },
  }
  const term = () => (isDraining || trust.isFenced() ? undefined : leader.term())
  metrics.gauge('beatAge', () => [[{}, trust.ageMs() / 1000]])
  return {
    ...compose('fleet', [
      lives,
      every({ clock, name: 'fleet.beat', everyMs: beatMs, onError: missed }, () => link.use(tick)),
      createDuties({
        clock,
        log,
        term,
        metrics,
        duties: [...ownDuties(deps), ...deps.duties],
      }),
    ]),
    self: () => life,
    isFenced: () => trust.isFenced(),
    beatAgeMs: () => trust.ageMs(),
    drain: async () => {
      isDraining = true
      await write(drain)
    },
    undrain: () => void (isDraining = false),
    end: () => void (isEnding = true),
    pods: async () =>
      valueOf(await database.transaction(list, { access: 'read' }), 'The pods cannot be read'),
  }
}
