// Q13: the crash matrix. A pod is lost in each transition of a machine, at each point where that can happen. Another pod takes
// over, and then the lost pod wakes up. `broken` checks what must hold, and mutants turn its checks red.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { z } from 'zod'
import * as pods from '../../src/fleet/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { machine } from '../../src/machine/definition.ts'
import type { Database } from '../../src/store/database.ts'
import { claim, type Claim } from '../../src/task/claim.ts'
import { createEnqueuer } from '../../src/task/enqueue.ts'
import { recover } from '../../src/task/recover.ts'
import { createRunning } from '../../src/task/running.ts'
import { createSettler, type Settler, type Settling } from '../../src/task/settle.ts'
import { createTracks } from '../../src/task/tracks.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/log.ts'
import { queueOn, TENANT } from '../support/tasks.ts'
import { asksFor, downstreamsOn } from '../support/throttle.ts'

const NAMES = ['a', 'b', 'c'] as const
const POINTS = [
  'before the body',
  'in the body',
  'before the record',
  'before the answer',
  'unknown commit',
  'woken in between',
] as const
type Name = (typeof NAMES)[number]
type Point = (typeof POINTS)[number]
type Crash = { readonly point: Point; readonly name: Name }

const RESULT = 'a after nothing, b after a, c after a,b'
const AUDIT = `
  create table public.audit (broken text);
  create function public.audit() returns trigger language plpgsql as $$ begin
    if new.position < old.position then insert into public.audit values ('the position fell'); end if;
    if not coalesce(new.carry, '{}') @> coalesce(old.carry, '{}') then
      insert into public.audit values ('a recorded output changed'); end if;
    return new;
  end $$;
  create trigger audit after update on fleetline.tasks for each row execute function public.audit()`

type Mutation = {
  readonly statement?: (text: string) => string
  readonly key?: (c: { readonly key: string; readonly attempt: number }) => string
}

async function tripOn(t: TestContext, { statement = (text) => text, key = (c) => c.key }: Mutation = {}) {
  const queue = await queueOn(t)
  const { run, newPod, history } = queue
  await run((query) => query(AUDIT))
  const seen = { bodies: [] as Name[], sink: new Map<string, number>(), isLost: false }
  const stalls = new Map<string, Stall>()
  const body = (name: Name) => async (c: { key: string; attempt: number; out: object }) => {
    await stalls.get(`before the body ${name}`)?.reach()
    seen.bodies.push(name)
    const effect = key(c)
    if (!seen.sink.has(effect)) seen.sink.set(effect, seen.sink.size)
    await stalls.get(`in the body ${name}`)?.reach()
    return `${name} after ${Object.keys(c.out).toSorted().join() || 'nothing'}`
  }
  const definition = machine('trip', { input: z.null(), output: z.string() })
    .check('looks', async () => undefined)
    .to('a', body('a'))
    .to('b', body('b'))
    .to('c', body('c'))
    .end(({ out }) => `${out.a}, ${out.b}, ${out.c}`)
  const database: Pick<Database, 'transaction'> = {
    transaction: async (work, options) => {
      const outcome = await queue.database.transaction(
        (query) => work((text, values) => query(statement(text), values)),
        options,
      )
      if (!seen.isLost || outcome.type !== 'committed') return outcome
      seen.isLost = false
      return { type: 'unknown', error: new Error('cut behind the commit') }
    },
  }
  const tracks = createTracks({ database, machines: [definition], turns: [] })
  await tracks.start()
  const deps = { clock: systemClock(), random: systemRandom(), cell: 0, deadlineMs: 120_000, database }
  const enqueuer = createEnqueuer({ ...deps, onEnqueued: () => undefined })
  const settler = createSettler(deps)
  const leader = await newPod()
  const term = (await run((query) => pods.take(query, leader, 0)))!

  /** A pod of its own that runs one claim. */
  const live = async (through: Pick<Settler, 'settle'> = settler) => {
    const pod = await newPod()
    const signal = new AbortController().signal
    const wish = { pod, asks: asksFor([...tracks.runners.keys()], 1), most: 1, suspects: 1, turn: 0 }
    const [held] = await run((query) => claim(query, wish))
    const running = createRunning({
      ...deps,
      settler: through,
      log: silentLog(),
      metrics: createMetrics(),
      isFenced: () => false,
      permits: downstreamsOn(deps.clock).permits,
      onFree: () => undefined,
    })
    return {
      pod,
      held: held!,
      begin: () => running.start({ id: pod, signal }, held!, tracks.runners.get(held!.track)!),
      ended: () => eventually(() => assert.equal(running.count(), 0), { what: 'an attempt to end' }),
    }
  }
  const lose = async (pod: number) => {
    await run((query) => pods.leave(query, pod))
    await run((query) => recover(query, term))
  }
  const enqueue = () => enqueuer.enqueue(TENANT, { machine: 'trip' })
  const audit = () => run((query) => query<{ broken: string }>('select broken from public.audit'))
  return { seen, stalls, settler, live, lose, enqueue, audit, history, run }
}
type Trip = Awaited<ReturnType<typeof tripOn>>

type Stall = {
  readonly reach: () => Promise<void>
  readonly reached: () => Promise<void>
  readonly end: () => void
}

/** Stops the first caller of `reach` until `end` is called. */
function createStall(): Stall {
  const over = Promise.withResolvers<void>()
  let isReached = false
  return {
    reach: async () => {
      if (isReached) return
      isReached = true
      await over.promise
    },
    reached: () => eventually(() => assert.ok(isReached), { what: 'the point to be reached' }),
    end: () => over.resolve(),
  }
}

function nameIn({ settlement }: Settling): string | undefined {
  if (settlement.type === 'record') return settlement.entry.name
  return settlement.type === 'done' ? settlement.last?.name : undefined
}

/** The settler of the pod that is lost. Its write for the transition stops at the point, or loses its answer. */
function losing({ seen, settler }: Trip, { point, name }: Crash, stall: Stall): Pick<Settler, 'settle'> {
  return {
    settle: async (item) => {
      if (nameIn(item) !== name) return settler.settle(item)
      if (point === 'before the record') await stall.reach()
      if (point === 'unknown commit') seen.isLost = true
      const answer = await settler.settle(item)
      if (point === 'before the answer') await stall.reach()
      return answer
    },
  }
}

/** Runs one task with one loss. Returns what is wrong, one sentence each. */
async function broken(trip: Trip, crash: Crash): Promise<string[]> {
  const { point, name } = crash
  const { seen, stalls, live, lose, enqueue, audit, history } = trip
  Object.assign(seen, { bodies: [], sink: new Map() })
  stalls.clear()
  const stall = createStall()
  stalls.set(point === 'woken in between' ? `in the body ${name}` : `${point} ${name}`, stall)
  const earlier = new Set((await history()).map(({ id }) => id))
  await enqueue()
  const first = await live(losing(trip, crash, stall))
  first.begin()
  if (point === 'unknown commit') await first.ended()
  else await stall.reached()
  if (point !== 'unknown commit') await lose(first.pod)
  await goOn(trip, crash, stall, first)
  const bodies = seen.bodies.toSorted().join() // before the lost pod wakes up
  stall.end()
  await first.ended()
  const ended = (await history()).filter(({ id }) => !earlier.has(id))
  const found = (await audit()).map((row) => row.broken)
  if (ended.length !== 1) found.push(`it ended ${ended.length} times`)
  if (ended[0]?.result !== RESULT) found.push(`its result is ${JSON.stringify(ended[0]?.result)}`)
  if (seen.sink.size !== NAMES.length) found.push('an effect was applied twice, or not at all')
  const isRepeated = ['in the body', 'before the record', 'woken in between'].includes(point)
  const expected = NAMES.flatMap((one) => (one === name && isRepeated ? [one, one] : [one]))
  if (bodies !== expected.join()) found.push(`bodies ran: ${bodies}`)
  return found
}

/** Another pod takes over, unless the task has ended. */
async function goOn(
  trip: Trip,
  { point, name }: Crash,
  stall: Stall,
  first: { ended(): Promise<unknown>; held: Claim },
): Promise<void> {
  const [ready] = await trip.run((query) => query('select from fleetline.tasks'))
  if (!ready) return // the lost pod has ended the task
  const second = await trip.live()
  if (point !== 'woken in between') {
    second.begin()
    await second.ended()
    return
  }
  const next = createStall()
  trip.stalls.set(`in the body ${name}`, next)
  second.begin()
  await next.reached()
  stall.end()
  await first.ended()
  next.end()
  await second.ended()
}

test('Q13: wherever a pod is lost, another resumes from the last record: one result, each effect once', async (t) => {
  const trip = await tripOn(t)
  for (const point of POINTS)
    for (const name of NAMES) assert.deepEqual(await broken(trip, { point, name }), [], `${point} ${name}`)
})

test('mutant, a record without its fence: a pod that wakes up writes into a task that another pod runs', async (t) => {
  const unfenced = (text: string) => text.replace(' and t.attempt = r.attempt and t.pod = r.pod', '')
  const trip = await tripOn(t, { statement: unfenced })
  const found = await broken(trip, { point: 'woken in between', name: 'a' })
  assert.ok(found.includes('it ended 0 times'), found.join('; '))
})

test('mutant, a record that does not move the position: finished steps run again', async (t) => {
  const still = (text: string) =>
    text
      .replace('set position = r.position,', 'set position = 0,')
      .replace(' and t.position = r.position - 1', '')
  const trip = await tripOn(t, { statement: still })
  const found = await broken(trip, { point: 'before the body', name: 'c' })
  assert.ok(found.includes('bodies ran: a,a,b,b,c'), found.join('; '))
})

test('mutant, a key that counts attempts: an effect is applied twice', async (t) => {
  const trip = await tripOn(t, { key: (c) => `${c.key}/${c.attempt}` })
  const found = await broken(trip, { point: 'in the body', name: 'b' })
  assert.deepEqual(found, ['an effect was applied twice, or not at all'])
})
