// pg-boss with a partition of its own for the queue, large batches, and notifications where latency counts.
import { PgBoss, type WorkOptions } from 'pg-boss'
import type { ContestantModule } from '../support/contestant.ts'

export const UNFINISHED = `select exists (select from pgboss.job where state < 'completed') as unfinished`

const QUEUE = 'work'
const LIST = 5_000
const DRAIN: WorkOptions = {
  batchSize: 1_000,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
}
const LATENCY: WorkOptions = { localConcurrency: 24, pollingIntervalSeconds: 0.5 }

export const prepare: ContestantModule['prepare'] = async (url) => {
  const boss = await started(url)
  await boss.createQueue(QUEUE, { partition: true, notify: true })
  await boss.stop({ graceful: false })
}

export const open: ContestantModule['open'] = async (url) => {
  const boss = await started(url)
  return {
    enqueueAll: async (numbers) => {
      for (let from = 0; from < numbers.length; from += LIST)
        await boss.insert(
          QUEUE,
          numbers.slice(from, from + LIST).map((number) => ({ data: { number } })),
        )
    },
    enqueue: async (number) => {
      await boss.send(QUEUE, { number })
    },
    work: async (run, aim) => {
      await boss.work<{ number: number }>(QUEUE, aim === 'drain' ? DRAIN : LATENCY, async (jobs) =>
        jobs.forEach(({ data }) => run(data.number)),
      )
      return () => boss.offWork(QUEUE)
    },
    close: async () => {
      await boss.stop({ graceful: true, timeout: 10_000 })
    },
  }
}

async function started(url: string): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString: url, useListenNotify: true, schedule: false, max: 25 })
  boss.on('error', console.error)
  await boss.start()
  return boss
}
