// Fleetline as an application would run it: a whole pod, with its HTTP servers, beat and metrics, 64 tasks at a time. The
// machine `trip` has three transitions that return at once. `long` has 32, and hands off at the first one that it runs.
import { TASK_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'
import { createPod, loadConfig, machine, type Machine, type Pod } from '../../packages/server/src/index.ts'
import { migrateUp } from '../../packages/server/src/store/migrate.ts'
import { OF_CLUSTER } from '../../packages/server/test/support/pod.ts'
import type { ContestantModule } from '../support/contestant.ts'

export const UNFINISHED = `select exists (select from fleetline.tasks) as unfinished`
export const [TRIP, LONG] = ['trip', 'long'] as const
export const STEPS = ['one', 'two', 'three'] as const
export const LONG_STEPS: readonly string[] = Array.from({ length: 32 }, (_, n) => `n${n}`)
export const AT_A_TIME = 64

type Run = (number: number) => void
const SCHEMAS = { input: z.object({ number: z.int() }), output: z.object({ number: z.int() }) }

export const prepare: ContestantModule['prepare'] = async (url) => {
  await migrateUp({ databaseUrl: url })
  const pod = podOf(url, () => undefined)
  await pod.start()
  await pod.stop()
}

export const open: ContestantModule['open'] = async (url) => {
  let pod: Pod | undefined
  const enqueueAll = async (numbers: readonly number[]) => {
    for (let from = 0; from < numbers.length; from += TASK_LIMITS.list) {
      const list = numbers.slice(from, from + TASK_LIMITS.list)
      await pod!.enqueueAll(list.map((number) => ({ machine: TRIP, input: { number } })))
    }
  }
  const close = async () => pod?.stop()
  return {
    enqueueAll,
    enqueue: (number) => enqueueAll([number]),
    work: async (run) => {
      pod = podOf(url, run)
      await pod.start()
      return close
    },
    close,
  }
}

function podOf(url: string, run: Run): Pod {
  const flags = {
    databaseUrl: url,
    allowInsecure: OF_CLUSTER,
    port: '0',
    operatorPort: '0',
    unreadyMs: '0', // there is no load balancer to wait for
    logLevel: 'error',
    slots: String(AT_A_TIME),
  }
  return createPod(loadConfig({ environment: {}, flags }), { tasks: [tripOf(run), longOf(run)] })
}

function tripOf(run: Run): Machine {
  const [one, two, three] = STEPS
  const ran = ({ number }: { readonly number: number }, step: number) => run(number * STEPS.length + step)
  return machine(TRIP, SCHEMAS)
    .to(one, async (c) => (ran(c.input, 0), { number: c.input.number }))
    .to(two, async (c) => (ran(c.input, 1), { number: c.out.one.number }))
    .to(three, async (c) => (ran(c.input, 2), { number: c.out.two.number }))
    .end((c) => c.out.three)
}

function longOf(run: Run): Machine {
  const begun = machine(LONG, SCHEMAS)
  const chain = LONG_STEPS.reduce(
    (so, name) =>
      so.to(name as 'n', async (c) => {
        run(c.input.number)
        return c.handoff(c.input)
      }) as unknown as typeof begun,
    begun,
  )
  return chain.end((c) => c.input)
}
