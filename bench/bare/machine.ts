// The engine alone: a script runs the statements of task/enqueue, task/claim and task/settle on the same tables, each in a
// transaction of its own, one after the other, 64 tasks at a time. There is no pod, no body of a step and no schema.
import pg from 'pg'
import { END, RECORD } from '../../packages/server/src/task/settle.ts'
import { AT_A_TIME, prepare as prepareOurs, STEPS, TRIP } from '../ours/machine.ts'
import type { ContestantModule } from '../support/contestant.ts'
import { claimAll, insertAll, joined, runAlone } from './queue.ts'

export { UNFINISHED } from '../ours/machine.ts'

const RECORDED = STEPS.length - 1 // the end of the task records the last one

export const prepare: ContestantModule['prepare'] = prepareOurs

export const open: ContestantModule['open'] = async (url) => {
  const [enqueuer, worker] = [new pg.Client(url), new pg.Client(url)]
  await Promise.all([enqueuer.connect(), worker.connect()])
  const enqueueAll = (numbers: readonly number[]) => insertAll(enqueuer, TRIP, numbers)
  return {
    enqueueAll,
    enqueue: (number) => enqueueAll([number]),
    work: async (run) => {
      const stopping = new AbortController()
      const loop = drain(worker, run, stopping.signal)
      return () => {
        stopping.abort()
        return loop
      }
    },
    close: async () => void (await Promise.all([enqueuer.end(), worker.end()])),
  }
}

async function drain(client: pg.Client, run: (number: number) => void, signal: AbortSignal): Promise<void> {
  const self = await joined(client, TRIP)
  while (!signal.aborted) {
    const claims = await claimAll(client, self, AT_A_TIME)
    const all = <Value>(value: Value) => claims.map(() => value)
    const held = [all(self.pod), claims.map(({ id }) => id), claims.map(({ attempt }) => attempt)]
    const results = claims.map(({ input }) => JSON.stringify(input))
    const entry = (step: number) => [all(step + 1), all(STEPS[step]), results, all(0)]
    for (const { input } of claims)
      for (const step of STEPS.keys()) run((input as { number: number }).number * STEPS.length + step)
    for (let step = 0; step < RECORDED; step += 1) await runAlone(client, RECORD, [...held, ...entry(step)])
    await runAlone(client, END, [...held, all('done'), results, all(null), all(null), ...entry(RECORDED)])
  }
}
