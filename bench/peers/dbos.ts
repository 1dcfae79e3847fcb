// DBOS: a workflow of three steps that return at once. Its own process starts and awaits 64 at a time, which spares it the
// polling of its queues. It has 20 connections.
import { DBOS } from '@dbos-inc/dbos-sdk'
import type { ContestantModule } from '../support/contestant.ts'

export const UNFINISHED = `select exists (
  select from dbos.workflow_status where status not in ('SUCCESS', 'ERROR', 'CANCELLED')) as unfinished`

const [AT_A_TIME, CONNECTIONS] = [64, 20]
let onRun: (number: number) => void = () => undefined

const trip = DBOS.registerWorkflow(
  async (number: number) => {
    const step = (name: string, index: number, given: number) => {
      const body = async () => {
        onRun(number * 3 + index)
        return { number: given }
      }
      return DBOS.runStep(body, { name })
    }
    const one = await step('one', 0, number)
    const two = await step('two', 1, one.number)
    return step('three', 2, two.number)
  },
  { name: 'trip' },
)

export const prepare: ContestantModule['prepare'] = async (url) => {
  await launched(url)
  await DBOS.shutdown()
}

export const open: ContestantModule['open'] = async (url) => {
  await launched(url)
  const enqueueAll = async (numbers: readonly number[]) => {
    const left = numbers.values() // each of the 64 loops takes the next one
    const runAll = async () => {
      for (const number of left) await (await DBOS.startWorkflow(trip)(number)).getResult()
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, runAll))
  }
  return {
    enqueueAll,
    enqueue: (number) => enqueueAll([number]),
    work: async (run) => {
      onRun = run
      return async () => undefined
    },
    close: () => DBOS.shutdown(),
  }
}

async function launched(url: string): Promise<void> {
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: url,
    systemDatabasePoolSize: CONNECTIONS,
    logLevel: 'error',
    applicationVersion: '1',
  })
  await DBOS.launch()
}
