// graphile-worker in the settings that its own documentation gives for speed.
import { Logger, makeWorkerUtils, run as runWorker, type RunnerOptions } from 'graphile-worker'
import type { ContestantModule } from '../support/contestant.ts'

export const UNFINISHED = 'select exists (select from graphile_worker._private_jobs) as unfinished'

const TASK = 'work'
const logger = new Logger(() => () => undefined)

const DRAIN: RunnerOptions = {
  concurrency: 24,
  maxPoolSize: 25,
  preset: {
    worker: {
      localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
}
// Without a local queue a notification starts a job at once.
const LATENCY: RunnerOptions = { concurrency: 24, maxPoolSize: 25 }

export const prepare: ContestantModule['prepare'] = async (url) => {
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  await utils.migrate()
  await utils.release()
}

export const open: ContestantModule['open'] = async (url) => {
  const utils = await makeWorkerUtils({ connectionString: url, logger, maxPoolSize: 25 })
  return {
    enqueueAll: async (numbers) => {
      await utils.addJobs(numbers.map((number) => ({ identifier: TASK, payload: { number } })))
    },
    enqueue: async (number) => {
      await utils.addJob(TASK, { number })
    },
    work: async (run, aim) => {
      const runner = await runWorker({
        ...(aim === 'drain' ? DRAIN : LATENCY),
        connectionString: url,
        logger,
        noHandleSignals: true,
        taskList: { [TASK]: (payload) => run((payload as { number: number }).number) },
      })
      return () => runner.stop()
    },
    close: async () => utils.release(),
  }
}
