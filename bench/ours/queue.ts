// Fleetline as an application would run it: a whole pod in each process, with its HTTP servers, beat and metrics.
import { TASK_LIMITS } from '@fleetline/protocol'
import { createPod, loadConfig, task, type Pod, type Machine } from '../../packages/server/src/index.ts'
import { migrateUp } from '../../packages/server/src/store/migrate.ts'
import { OF_CLUSTER } from '../../packages/server/test/support/pod.ts'
import type { ContestantModule } from '../support/contestant.ts'

export const UNFINISHED = `select exists (select from fleetline.tasks) as unfinished`
export const MACHINE = 'work'

// The handler returns at once, so a pod has as many slots as the queue settles in one batch.
const SLOTS = '500'

export const prepare: ContestantModule['prepare'] = async (url) => {
  await migrateUp({ databaseUrl: url })
  const pod = podOf(url, [workOf(() => undefined)])
  await pod.start()
  await pod.stop()
}

export const open: ContestantModule['open'] = async (url) => {
  const pods: Pod[] = []
  const started = async (tasks: readonly Machine[] = []) => {
    const pod = podOf(url, tasks)
    pods.push(pod)
    await pod.start()
    return pod
  }
  let enqueuing: Promise<Pod> | undefined
  const wanted = (number: number) => ({ machine: MACHINE, input: { number } })
  return {
    enqueueAll: async (numbers) => {
      const pod = await (enqueuing ??= started())
      for (let from = 0; from < numbers.length; from += TASK_LIMITS.list)
        await pod.enqueueAll(numbers.slice(from, from + TASK_LIMITS.list).map(wanted))
    },
    enqueue: async (number) => {
      const pod = await (enqueuing ??= started())
      await pod.enqueue(wanted(number))
    },
    work: async (run) => {
      const pod = await started([workOf(run)])
      return () => pod.stop()
    },
    close: async () => void (await Promise.all(pods.map((pod) => pod.stop()))),
  }
}

function workOf(run: (number: number) => void): Machine {
  return task(MACHINE, ({ input }) => {
    run((input as { number: number }).number)
    return null
  })
}

function podOf(url: string, tasks: readonly Machine[]): Pod {
  const doors = { port: '0', operatorPort: '0', unreadyMs: '0' } // there is no load balancer to wait for
  const flags = { databaseUrl: url, allowInsecure: OF_CLUSTER, ...doors, logLevel: 'error', slots: SLOTS }
  return createPod(loadConfig({ environment: {}, flags }), { tasks })
}
