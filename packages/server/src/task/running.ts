// The attempts that run in this process, each from its claim until its settlement is answered. A slot is free again only when
// the row says so. Guarantees:
//   a settlement is retried until PostgreSQL answers, or until the pod stops: then the leader returns the task
//   a settlement that changes no row is counted as fenced, and is not retried
//   when an incarnation ends, what ran under it is aborted; results are still sent, since the rows decide whether they count
import { formatId } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { retryUntilAnswered } from '../lib/retry-until-answered.ts'
import type { Random } from '../lib/random.ts'
import { isValueFault } from '../store/sqlstate.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Incarnation } from '../store/incarnation.ts'
import { faultFields, faultOf, readThrown } from './fault.ts'
import type { Claim } from './claim.ts'
import type { SettledEnd, Permits, Runner, Surroundings } from './runner.ts'
import type { Recording, Settlement, Settler, Settling } from './settle.ts'

type Attempt = Pick<Claim, 'id' | 'attempt'>

type Running = {
  count(): number
  /** How many attempts call this downstream and have not asked for a permit yet. */
  coming(downstream: string): number
  /** The names of the attempts that run or are being settled. */
  names(): ReadonlySet<string>
  start(pod: Incarnation, claim: Claim, runner: Runner): void
  /** Gives up a claim that this pod does not run. */
  handBack(pod: Incarnation, attempt: Attempt, machine: string): void
  /** Resolves when nothing runs, or when it may start again. Attempts that have not ended in time are aborted and handed back. */
  drain(limits: DrainLimits): Promise<void>
  /** Ends a drain: running attempts are not aborted any more. */
  resume(): void
}
/** `runMs`: the time in which attempts may end by themselves. `endMs`: the time in which aborted attempts must end and be handed back. It
 *  is absent if the process stays alive: then they are handed back whenever PostgreSQL answers. */
type DrainLimits = { readonly runMs: number; readonly endMs?: number }
type Deps = {
  readonly settler: Pick<Settler, 'settle'>
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly metrics: Metrics
  readonly cell: number
  readonly isFenced: () => boolean
  readonly permits: Permits
  /** Called when the slot of the attempt with this name is free. `hasEnded`: the attempt ran, and its row says so. */
  readonly onFree: (name: string, hasEnded: boolean) => void
}
type Run = {
  readonly pod: number
  readonly ending: AbortController
  readonly ended: Promise<void>
}

const FENCED = new Error('fenced: this pod was counted as dead, the task may run elsewhere')
const DRAINED = new Error('drain: the pod stops, the task is handed back')

export function nameOf({ id, attempt }: Attempt): string {
  return `${id} ${attempt}`
}

export function createRunning(deps: Deps): Running {
  const { clock, random, metrics, cell, permits } = deps
  const runs = new Map<string, Run>()
  const coming = new Map<string, string>()
  const watched = new WeakSet<AbortSignal>()
  const gaveUp = new AbortController()
  let draining = new AbortController()
  let resumed = new AbortController()

  const abortAll = (reason: Error, pod?: number) =>
    runs.forEach((run) => (pod === undefined || run.pod === pod) && run.ending.abort(reason))
  const watch = ({ id, signal }: Incarnation) => {
    if (watched.has(signal)) return
    watched.add(signal)
    signal.addEventListener('abort', () => abortAll(FENCED, id), { once: true })
  }
  /** Once an attempt asks for a permit, the downstream itself counts it. */
  const asking = (name: string): Permits['run'] => {
    return (...call) => {
      coming.delete(name)
      return permits.run(...call)
    }
  }
  type Work = (ending: AbortController) => Promise<boolean>
  const track = (pod: number, attempt: Attempt, work: Work) => {
    const ending = new AbortController()
    const ended = work(ending)
      .catch((error: unknown) => {
        deps.log.error('an attempt was dropped: the leader returns it', { error })
        return false
      })
      .then((hasEnded) => {
        runs.delete(nameOf(attempt))
        coming.delete(nameOf(attempt))
        deps.onFree(nameOf(attempt), hasEnded)
      })
    runs.set(nameOf(attempt), { pod, ending, ended })
  }
  const logOf = ({ id, attempt }: Attempt, machine: string) =>
    deps.log.with({ task: formatId('task', cell, id), machine, attempt })
  const settle = async (
    pod: number,
    { id, attempt }: Attempt,
    settlement: Settlement | Recording,
    log: Log,
  ) => untilAnswered({ ...deps, log, signal: gaveUp.signal }, { pod, id, attempt, settlement })
  const recorder = (pod: number, claim: Claim, log: Log): Surroundings['record'] => {
    return async (entry) => {
      const answered = await settle(pod, claim, { type: 'record', entry }, log)
      return answered.type === 'record' && answered.answer === 'settled' ? undefined : answered
    }
  }
  /** Returns whether the attempt ran, and its row says so. */
  const report = ({ answer, type }: SettledEnd, machine: string, log: Log): boolean => {
    metrics.count('tasksSettled', { machine, outcome: answer === 'settled' ? type : answer })
    if (answer === 'fenced') log.info('an attempt that was taken over or cancelled changed nothing')
    if (answer === 'unanswered')
      log.error('the pod stops before its attempt is settled: the leader returns it')
    return answer === 'settled' && type !== 'back'
  }
  return {
    count: () => runs.size,
    coming: (downstream) => Array.from(coming.values()).filter((one) => one === downstream).length,
    names: () => new Set(runs.keys()),
    start: (pod, claim, { machine, downstream, run }) => {
      watch(pod)
      const work: Work = async (ending) => {
        const log = logOf(claim, machine)
        const startMs = clock.monotonicMs()
        const ofPod = {
          pod: pod.id,
          isFenced: deps.isFenced,
          draining: draining.signal,
          gaveUp: gaveUp.signal,
        }
        const record = recorder(pod.id, claim, log)
        const own = { ...permits, run: asking(nameOf(claim)) }
        const around = { clock, random, cell, log, metrics, ending, record, permits: own, ...ofPod }
        const end = await run(claim, around)
        metrics.observe('taskTime', { machine }, clock.monotonicMs() - startMs)
        if ('answer' in end) return report(end, machine, log)
        tell(log, end)
        return report(await settle(pod.id, claim, end, log), machine, log)
      }
      if (downstream !== undefined) coming.set(nameOf(claim), downstream)
      track(pod.id, claim, work)
    },
    handBack: (pod, attempt, machine) =>
      track(pod.id, attempt, async () => {
        const log = logOf(attempt, machine)
        return report(await settle(pod.id, attempt, { type: 'back' }, log), machine, log)
      }),
    drain: async ({ runMs, endMs }) => {
      draining.abort(DRAINED)
      const over = new AbortController()
      const signal = AbortSignal.any([over.signal, resumed.signal])
      const hurry = async () => {
        await clock.sleep(runMs, signal)
        abortAll(DRAINED)
        if (endMs === undefined) return
        await clock.sleep(endMs, signal)
        gaveUp.abort(DRAINED)
      }
      hurry().catch(() => undefined) // nothing runs any more, or it may run
      const isResumed = once(resumed.signal)
      while (runs.size > 0 && !signal.aborted)
        await Promise.race([Promise.all(Array.from(runs.values(), ({ ended }) => ended)), isResumed])
      over.abort(DRAINED)
    },
    resume: () => {
      resumed.abort()
      resumed = new AbortController()
      draining = new AbortController()
    },
  }
}

function once(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** Logs what an operator wants to see without searching. */
function tell(log: Log, settlement: Settlement): void {
  if (settlement.type === 'retry') log.warn('an attempt failed', faultFields(settlement.error))
  if (settlement.type === 'failed') log.warn('a task failed', faultFields(settlement.error))
  if (settlement.type === 'held') log.warn('a task is held', faultFields(settlement.error))
  if (settlement.type === 'dead') log.error('a task is dead', faultFields(settlement.error))
}

type Sender = Pick<Deps, 'settler' | 'clock' | 'random' | 'log'> & { readonly signal: AbortSignal }

async function untilAnswered({ settler, log, ...sender }: Sender, settling: Settling): Promise<SettledEnd> {
  let item = settling
  const onFailure = (error: unknown, failures: number) => {
    if (failures === 0) log.warn('an attempt could not be settled yet', { error })
    item = { ...item, isRepeat: true }
    if (!isValueFault(error)) return
    const settlement = unstorable(settling, error, sender.clock)
    tell(log, settlement)
    item = { ...settling, settlement }
  }
  const answer = await retryUntilAnswered({ ...sender, onFailure }, () => settler.settle(item))
  return { answer: answer ?? 'unanswered', type: item.settlement.type }
}

/** For a result that `toStorableJson` accepts and PostgreSQL does not. */
function unstorable({ attempt, settlement }: Settling, cause: unknown, clock: Clock): Settlement {
  const thrown = readThrown(new Error('PostgreSQL cannot store the result', { cause }))
  const transition = settlement.type === 'record' ? settlement.entry.name : undefined
  return { type: 'dead', error: faultOf({ ...thrown, code: 'invalid', attempt, transition, clock }) }
}
