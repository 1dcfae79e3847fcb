// Claims as many tasks as this pod has room for, one claim after the other. Guarantees:
//   P3   while fenced, draining or between two incarnations, it claims nothing and starts nothing. If a claim returns
//        tasks at such a time, they are handed back
//   Q15  no claim without a holder: a claim that PostgreSQL says this pod holds, and that it does not run, is handed back. The
//        pod checks this after a claim of unknown outcome, after a reconnect, and every two seconds
//   Q6   of suspects (tasks whose pods died twice in a row) it runs one, and one more for each that has ended here. So a new
//        process runs them one at a time at first, and many that were suspected wrongly are soon done
//
//   after a claim that             it claims again
//   filled the room                at once, if there is room
//   filled it, with no room left   when a slot is free again
//   filled a downstream's room,    when any attempt has ended
//   or left out a full one
//   brought less, or nothing       when an enqueue here or a hint wakes it, or after `taskPollMs`
//   brought nothing, twice in a    after a pause with full jitter, longer each time: other pods were faster. No pause if the
//   row, although it was woken     claim left out a downstream: the wake-up may have been for a task of that downstream
//   failed                         after a pause with full jitter, up to 5 s
import { backoffMs, spreadMs } from '../lib/backoff.ts'
import { createBell } from '../lib/bell.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import type { Utilisation } from '../lib/utilisation.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Incarnation } from '../store/incarnation.ts'
import { measureFill, planClaim } from './claim-plan.ts'
import { claim, readHeldClaims, type Claim } from './claim.ts'
import { countFreeSlots } from './free-slots.ts'
import { GRACE_MS, type Permits, type Runner } from './runner.ts'
import { createRunning, nameOf } from './running.ts'
import type { Settler } from './settle.ts'

type Worker = Service & {
  /** How many attempts it runs or settles. */
  running(): number
  /** Tells it that there may be something to claim. */
  wake(): void
  /** Tells it that hints were missed. It checks at once for claims that it does not know of. */
  doubt(): void
  /** Takes nothing new; resolves when nothing runs, or when it is resumed. `isLast`: the process ends after that. */
  drain(isLast: boolean): Promise<void>
  /** Takes new work again. */
  resume(): void
}
type Deps = {
  readonly database: Transactions
  readonly settler: Pick<Settler, 'settle'>
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly metrics: Metrics
  readonly cell: number
  /** By track number; empty until the tracks are known. */
  readonly runners: ReadonlyMap<number, Runner>
  /** Whether another worker of this pod handles the claims of this track. */
  readonly isOfAnother: (track: number) => boolean
  readonly permits: Permits
  readonly self: () => Incarnation | undefined
  readonly isFenced: () => boolean
  readonly utilisation: Utilisation
  readonly slots: number
  readonly taskPollMs: number
  readonly drainMs: number
  readonly stopMs: number
}

const CHECK_MS = 2_000
const CONTENDED = { baseMs: 5, capMs: 1_000 }
const FAILED = { baseMs: 50, capMs: 5_000 }

export function createWorker(deps: Deps): Worker {
  const { clock, random, metrics, log, runners, permits } = deps
  const bell = createBell(clock)
  const stopping = new AbortController()
  const state = { isDraining: false, isMore: false, checkMs: 0, failures: 0, misses: 0, cleared: 0 }
  const suspects = new Set<string>()
  const onFree = (name: string, hasEnded: boolean) => {
    const wasSuspect = suspects.delete(name)
    if (wasSuspect && hasEnded) state.cleared += 1
    if (wasSuspect || state.isMore) bell.ring()
  }
  const running = createRunning({ ...deps, onFree })
  let loop: Promise<void> | undefined

  const mayStart = (pod: Incarnation) => !state.isDraining && !deps.isFenced() && !pod.signal.aborted
  const take = (pod: Incarnation, claims: readonly Claim[]) => {
    for (const one of claims) {
      const runner = runners.get(one.track)!
      if (!mayStart(pod)) {
        running.handBack(pod, one, runner.machine)
        continue
      }
      metrics.observe('taskWait', { machine: runner.machine }, one.waitedMs)
      if (one.reason === 'suspect') suspects.add(nameOf(one))
      running.start(pod, one, runner)
    }
  }
  /** Returns how many tasks it claimed, and whether it asked for all its tracks. Notes whether there may be more to claim. */
  const claimFor = async (pod: Incarnation, most: number) => {
    const { asks, isWhole } = planClaim(runners, most, (key) => permits.roomFor(key, running.coming(key)))
    state.isMore = true
    if (asks.length === 0) return undefined
    const wish = {
      pod: pod.id,
      asks,
      most,
      suspects: Math.max(0, 1 + state.cleared - suspects.size),
      turn: random.unit(),
    }
    const startMs = clock.monotonicMs()
    const outcome = await deps.database.transaction((query) => claim(query, wish))
    metrics.observe('claimTime', {}, clock.monotonicMs() - startMs)
    if (outcome.type === 'unknown') state.checkMs = 0 // it may hold claims that it does not know of
    const claims = valueOf(outcome, 'Nothing could be claimed')
    take(pod, claims)
    const answers = measureFill(asks, claims)
    state.isMore = !isWhole || claims.length >= most || answers.some(({ isFull }) => isFull)
    for (const { track, room, isFull } of answers) {
      const key = runners.get(track)?.downstream
      if (key !== undefined) permits.claimed(key, isFull && room < most) // otherwise the slots are the limit
    }
    return { count: claims.length, isWhole }
  }
  const check = async (pod: Incarnation) => {
    const known = running.names() // read first: an attempt that ends in the meantime is no orphan
    const outcome = await deps.database.transaction((query) => readHeldClaims(query, pod.id), {
      access: 'read',
    })
    const held = valueOf(outcome, 'Claims could not be read')
    const orphans = held.filter((one) => !known.has(nameOf(one)) && !deps.isOfAnother(one.track))
    state.checkMs = clock.monotonicMs() + CHECK_MS
    for (const { track, ...attempt } of orphans) {
      log.warn('hands back a claim that it has not heard of', { attempt: attempt.attempt })
      running.handBack(pod, attempt, runners.get(track)?.machine ?? 'none')
    }
  }
  /** Returns how long to wait for the bell; 0: not at all. */
  const round = async (wasRung: boolean): Promise<number> => {
    const idleMs = Math.min(CHECK_MS, spreadMs(deps.taskPollMs, random))
    const pod = deps.self()
    if (pod && clock.monotonicMs() >= state.checkMs) await check(pod)
    if (!pod || !mayStart(pod)) return idleMs
    const load = { slots: deps.slots, running: running.count(), utilisation: deps.utilisation() }
    const room = countFreeSlots(load)
    if (room === 0) return idleMs
    const claimed = await claimFor(pod, room)
    if (!claimed) return idleMs
    const { count, isWhole } = claimed
    state.failures = 0
    state.misses = count === 0 && wasRung && isWhole ? state.misses + 1 : 0
    const isContended = state.misses > 1 // a single miss may be this pod's own hint, for tasks that it has already taken
    metrics.count('claims', { outcome: count > 0 ? 'some' : isContended ? 'contended' : 'empty' })
    if (isContended) await pause(Math.min(idleMs, backoffMs(CONTENDED, state.misses, random)))
    return count === room ? 0 : idleMs
  }
  const pause = (ms: number) => clock.sleep(ms, stopping.signal).catch(() => undefined) // the worker stops
  const run = async () => {
    for (let wasRung = false; !stopping.signal.aborted;) {
      const idleMs: number = await round(wasRung).catch(async (error: unknown) => {
        if (state.failures === 0) log.warn('tasks cannot be claimed', { error })
        metrics.count('claims', { outcome: 'failed' })
        await pause(backoffMs(FAILED, state.failures, random))
        state.failures += 1
        return 0
      })
      wasRung = idleMs > 0 && !stopping.signal.aborted && (await bell.wait(idleMs))
    }
  }
  /** The outcome of the last claim may be unknown. */
  const checkAtEnd = async () => {
    const pod = deps.self()
    if (!pod || runners.size === 0 || state.checkMs > 0) return
    await check(pod).catch((error: unknown) => log.warn('claims could not be looked for', { error }))
  }
  return {
    name: 'tasks.worker',
    start: async () => void (loop ??= run()),
    running: () => running.count(),
    wake: () => bell.ring(),
    doubt: () => {
      state.checkMs = 0
      bell.ring()
    },
    drain: async (isLast) => {
      state.isDraining = true
      await running.drain({ runMs: deps.drainMs, ...(isLast && { endMs: GRACE_MS + deps.stopMs }) })
    },
    resume: () => {
      state.isDraining = false
      running.resume()
      bell.ring()
    },
    stop: async () => {
      state.isDraining = true
      stopping.abort(new Error('the worker stops'))
      bell.ring()
      await loop
      await checkAtEnd()
      await running.drain({ runMs: 0, endMs: deps.stopMs })
    },
  }
}
