// What the leader does for tasks.
import type { Database } from '../store/database.ts'
import { dropPartitions, makePartitions } from './partitions.ts'

type Duty = { readonly name: string; readonly everyMs: number; readonly run: () => Promise<void> }

const DAYS_MS = 60_000

export function taskDuties({ database }: { readonly database: Pick<Database, 'transaction'> }): Duty[] {
  const days = async () => {
    await makePartitions(database)
    await dropPartitions(database)
  }
  return [{ name: 'days of the history', everyMs: DAYS_MS, run: days }]
}
