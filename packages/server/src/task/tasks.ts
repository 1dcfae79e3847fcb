// Tasks as the rest of the pod sees them. Every pod can enqueue. A pod that was given something to run also claims and runs
// tasks; one that runs nothing leaves the queue alone.
import { TASK_LIMITS } from '@fleetline/protocol'
import type { Config } from '../config.ts'
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import { compose, type Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { loopUtilisation } from '../lib/utilisation.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Incarnation } from '../store/incarnation.ts'
import { createDirectory, type TaskDirectory } from './directory.ts'
import { DEFAULT_QUEUE, toStorableJson, type Shaped, type TaskSpec } from './draft.ts'
import { promote } from './due.ts'
import { createEnqueuer, type Enqueued } from './enqueue.ts'
import { isMachine, type Machine } from './machine.ts'
import type { Permits } from './runner.ts'
import { createSettler } from './settle.ts'
import type { Tracks } from './tracks.ts'
import { createWorker } from './worker.ts'

/** A task whose machine is given by name or by its definition. With a definition, the input is typed. */
export type Wanted<Raw = unknown> = TaskSpec | (Omit<TaskSpec, 'machine' | 'input'> & Defined<Raw>)
type Defined<Raw> = { readonly machine: Machine<Raw> } & (unknown extends Raw
  ? { readonly input?: NoInfer<Raw> }
  : { readonly input: NoInfer<Raw> })

export type Tasks = Service &
  TaskDirectory & {
    enqueue(tenant: number, wanted: Wanted): Promise<Enqueued>
    /** Enqueues all of them or none. */
    enqueueAll(tenant: number, wanted: readonly Wanted[]): Promise<Enqueued[]>
    /** In the caller's transaction: the tasks exist if it commits. */
    enqueueIn(query: Query, tenant: number, wanted: readonly Wanted[]): Promise<Enqueued[]>
    /** Tells this pod and the others that there is something to claim. */
    readonly wake: () => void
    /** Takes nothing new, and resolves when nothing runs, or when it is resumed. `isLast`: the process ends after that. */
    drain(isLast?: boolean): Promise<void>
    /** Takes new work again. */
    resume(): void
  }

type Deps = Pick<
  Config,
  'cell' | 'transactionDeadlineMs' | 'slots' | 'turnSlots' | 'taskPollMs' | 'drainMs' | 'stopMs'
> & {
  readonly database: Transactions
  readonly hints: Pick<Hints, 'listen' | 'send'>
  readonly fleet: { self(): Incarnation | undefined; isFenced(): boolean }
  readonly tracks: Pick<Tracks, 'pools' | 'machine'>
  readonly permits: Permits
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly metrics: Metrics
}

/** The topic of the hint that there may be something to claim. */
export const TASKS_TOPIC = 'tasks'
const DUE_MS = 250

export function createTasks(deps: Deps): Tasks {
  const { database, hints, fleet, tracks, clock, random, log, metrics } = deps
  const timed = { ...deps, deadlineMs: deps.transactionDeadlineMs }
  const settler = createSettler(timed)
  const utilisation = loopUtilisation(clock)
  const [self, isFenced] = [() => fleet.self(), () => fleet.isFenced()]
  const slotsOf = { tasks: deps.slots, turns: deps.turnSlots }
  const workers = tracks.pools.map(({ kind, runners }) => {
    const others = tracks.pools.filter((pool) => pool.kind !== kind)
    const isOfAnother = (track: number) => others.some((pool) => pool.runners.has(track))
    const limits = { slots: slotsOf[kind], runners, isOfAnother }
    return { kind, ...createWorker({ ...deps, ...limits, self, isFenced, settler, utilisation }) }
  })
  metrics.gauge('tasksRunning', () =>
    workers.map((worker) => [{ kind: worker.kind }, worker.running()] as const),
  )
  metrics.gauge('taskSlots', () => workers.map(({ kind }) => [{ kind }, slotsOf[kind]] as const))
  const wakeAll = () => workers.forEach((worker) => worker.wake())
  const onReady = () => {
    wakeAll()
    hints.send(TASKS_TOPIC)
  }
  const enqueuer = createEnqueuer({ ...timed, onEnqueued: onReady })
  const directory = createDirectory({ ...deps, onReady })
  const listen: Service = {
    name: 'tasks.listen',
    start: async () => {
      hints.listen(TASKS_TOPIC, (source) => {
        if (source === 'hint') wakeAll()
        if (source === 'reconnect') workers.forEach((worker) => worker.doubt()) // a poll is ignored: workers poll by themselves
      })
    },
    stop: async () => undefined,
  }
  let isFailing = false
  const onError = (error: unknown) => {
    if (!isFailing) log.warn('tasks that are due cannot be made ready', { error })
    isFailing = true
  }
  const due = every({ clock, random, name: 'tasks.due', everyMs: DUE_MS, onError }, async (signal) => {
    for (let isAll = false; !isAll && !signal.aborted;) {
      const promoted = valueOf(await database.transaction(promote), 'Nothing could be made ready')
      if (promoted.count > 0) onReady()
      ;({ isAll } = promoted)
    }
    isFailing = false
  })
  const specOf = async (wanted: Wanted): Promise<Shaped> => {
    const { machine, queue, priority, ...rest } = wanted
    const definition = isMachine(machine) ? machine : tracks.machine(queue ?? DEFAULT_QUEUE, machine)
    if (!definition) return wanted as TaskSpec
    const { name, shape } = definition
    const spec: Shaped = { ...rest, machine: name, shape, queue: queue ?? definition.queue }
    const first = priority ?? definition.priority
    const whole = first === undefined ? spec : { ...spec, priority: first }
    if (!definition.parse) return whole
    const input: unknown = JSON.parse(toStorableJson('input', rest.input ?? null, TASK_LIMITS.inputBytes))
    await definition.parse(input) // validates what is stored, not the value before JSON
    return { ...whole, input }
  }
  const specsOf = (wanted: readonly Wanted[]) => Promise.all(wanted.map(specOf))
  const count = (enqueued: readonly Enqueued[]) =>
    metrics.count('tasksEnqueued', {}, enqueued.filter(({ created }) => created).length)
  const working = workers.length === 0 ? [] : [listen, ...workers, due]
  return {
    ...compose('tasks', [settler, enqueuer, ...working]),
    ...directory,
    enqueue: async (tenant, wanted) => {
      const enqueued = await enqueuer.enqueue(tenant, await specOf(wanted))
      count([enqueued])
      return enqueued
    },
    enqueueAll: async (tenant, wanted) => {
      const enqueued = await enqueuer.enqueueAll(tenant, await specsOf(wanted))
      count(enqueued)
      return enqueued
    },
    enqueueIn: async (query, tenant, wanted) => enqueuer.enqueueIn(query, tenant, await specsOf(wanted)),
    wake: onReady,
    drain: async (isLast = false) => void (await Promise.all(workers.map((worker) => worker.drain(isLast)))),
    resume: () => workers.forEach((worker) => worker.resume()),
  }
}
