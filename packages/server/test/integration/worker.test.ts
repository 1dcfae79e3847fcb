// When a worker claims again. Its clock stands still, so it claims only when something wakes it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { machine, task, type TaskOptions } from '../../src/machine/definition.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { queueOn, TENANT } from '../support/tasks.ts'
import { downstreamsOn } from '../support/throttle.ts'
import { workerOn } from '../support/worker.ts'
import type { Database } from '../../src/store/database.ts'
import { z } from 'zod'

const KEY = 'provider/account'

/** A worker with the tasks `free` and `limited`. The downstream of `limited` takes `share` calls at once. `end` ends the run
 *  with this input. */
async function standing(
  t: TestContext,
  { slots, share }: { readonly slots: number; readonly share: number },
) {
  const { database, newPod, history } = await queueOn(t)
  const clock = manualClock()
  const [id, { signal }] = [await newPod(), new AbortController()]
  const runs = new Map<string, PromiseWithResolvers<void>>()
  const define = (name: string, options: TaskOptions<unknown, unknown>) =>
    task(
      name,
      ({ input }) => {
        const run = Promise.withResolvers<void>()
        runs.set(input as string, run)
        return run.promise
      },
      options,
    )
  const { permits } = downstreamsOn(clock, { offer: { isLearnt: true, share } })
  await permits.run(KEY, async () => undefined, {
    maxWaitMs: 0,
    deadlineMs: 1_000,
    signal,
    waitSignal: signal,
  }) // now the pod knows its share
  const told: boolean[] = []
  const claimed = (key: string, hasMore: boolean) => {
    told.push(hasMore)
    permits.claimed(key, hasMore)
  }
  const tasks = await workerOn(
    t,
    database,
    { self: () => ({ id, signal }), isFenced: () => false },
    {
      machines: [define('free', {}), define('limited', { downstream: KEY }), twoOf(runs)],
      clock,
      permits: { ...permits, claimed },
      slots,
    },
  )
  atEnd(t, () => runs.forEach(({ resolve }) => resolve())) // otherwise a drain waits for the clock
  return {
    told,
    /** Enqueues all at once. The first of the list has the highest priority. */
    add: (...wanted: readonly (readonly [machine: string, input: string])[]) =>
      tasks.enqueueAll(
        TENANT,
        wanted.map(([machine, input], nth) => ({ machine, input, priority: 7 - nth })),
      ),
    runs: (...inputs: string[]) =>
      eventually(() => assert.deepEqual([...runs.keys()].toSorted(), inputs.toSorted()), {
        what: 'the runs',
      }),
    end: async (input: string) => {
      const before = (await history()).length
      runs.get(input)!.resolve()
      await eventually(async () => assert.equal((await history()).length, before + 1), {
        what: `${input} to end`,
      })
    },
  }
}

/** A machine whose second step calls another downstream and runs until the test ends it. */
function twoOf(runs: Map<string, PromiseWithResolvers<void>>) {
  return machine('two', { input: z.string(), output: z.null(), downstream: KEY })
    .to('first', async () => null)
    .to(
      'second',
      async ({ input }) => {
        const run = Promise.withResolvers<void>()
        runs.set(input, run)
        await run.promise
      },
      { downstream: 'other' },
    )
    .end(() => null)
}

test('a drain of a process that goes on hands back, however late PostgreSQL answers; what begins later is not drained', async (t) => {
  const { database, newPod, tasks: rows } = await queueOn(t)
  const clock = manualClock()
  const [id, { signal }] = [await newPod(), new AbortController()]
  let isAway = false
  const failing: Database['transaction'] = async (...given) =>
    isAway ? Promise.reject(new Error('away')) : database.transaction(...given)
  const runs: PromiseWithResolvers<void>[] = []
  const waits = task('waits', ({ signal: own }) => {
    const run = Promise.withResolvers<void>()
    runs.push(run)
    own.addEventListener('abort', () => run.reject(own.reason as Error))
    return run.promise
  })
  const fleet = { self: () => ({ id, signal }), isFenced: () => false }
  const tasks = await workerOn(t, { transaction: failing }, fleet, { machines: [waits], clock })
  atEnd(t, () => runs.forEach(({ resolve }) => resolve())) // otherwise a drain waits for the clock
  /** Moves the clock until it holds. */
  const untilMoved = (what: string, check: () => void | Promise<void>) =>
    eventually(async () => clock.advance(1_000).then(check), { what })
  const states = async () => (await rows()).map(({ state, spent }) => `${state} ${spent}`)
  await tasks.enqueueAll(TENANT, [{ machine: 'waits', input: null }])
  await untilMoved('the run', () => assert.equal(runs.length, 1))
  isAway = true
  const drained = tasks.drain()
  await clock.advance(60_000) // longer than a stop waits
  isAway = false
  await untilMoved('it to be handed back', async () => assert.deepEqual(await states(), ['ready 0']))
  await drained
  tasks.resume()
  await untilMoved('it to run again', () => assert.equal(runs.length, 2))
  await clock.advance(60_000)
  assert.deepEqual(await states(), ['claimed 1'], 'it is not aborted')
})

test('an attempt that has moved on to another downstream takes no room at the first', async (t) => {
  const { add, runs } = await standing(t, { slots: 4, share: 1 })
  await add(['two', 'a'])
  await runs('a')
  await add(['limited', 'b'])
  await runs('a', 'b')
})

test('a worker claims again when a slot is free, also if no downstream is full', async (t) => {
  const { add, runs, end, told } = await standing(t, { slots: 2, share: 4 })
  await add(['free', 'a'], ['limited', 'b'], ['free', 'c'], ['limited', 'd'], ['limited', 'e'])
  await runs('a', 'b')
  await end('a')
  await runs('a', 'b', 'c')
  await end('c')
  await runs('a', 'b', 'c', 'd')
  await end('b')
  await runs('a', 'b', 'c', 'd', 'e')
  await end('d')
  await end('e')
  assert.ok(!told.includes(true), `only the slots were full, but claims said: ${told.join()}`)
})

test('a worker claims again when a downstream has room again, even if slots were free', async (t) => {
  const { add, runs, end, told } = await standing(t, { slots: 4, share: 1 })
  await add(['limited', 'a'], ['limited', 'b'], ['limited', 'c'])
  await runs('a')
  await end('a')
  await runs('a', 'b')
  await end('b')
  await runs('a', 'b', 'c')
  assert.ok(told.includes(true), `the downstream was full, but claims said: ${told.join()}`)
  await end('c')
})

test('a worker claims again when a downstream that the last claim left out has room again', async (t) => {
  const { add, runs, end } = await standing(t, { slots: 4, share: 1 })
  await add(['limited', 'a'], ['limited', 'b'])
  await runs('a')
  await add(['free', 'c'])
  await runs('a', 'c')
  await end('c')
  await end('a')
  await runs('a', 'b', 'c')
  await end('b')
})
