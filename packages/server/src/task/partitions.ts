// The days of the history: made a week ahead, dropped whole when no queue keeps them any more. The functions are the
// migrator's, so that a pod's role needs no right to make tables. A long read of the history holds up neither of them. A
// settlement waits at most 20 ms for each try to drop a day; if the lock is not free, the next call tries again.
import { valueOf, type Transactions } from '../store/database.ts'
import { isNoPartition } from '../store/sqlstate.ts'

const MAKE = 'select fleetline.make_partitions(7)'
const DROP = 'select fleetline.drop_partitions()'

export async function makePartitions(database: Transactions): Promise<void> {
  valueOf(await database.transaction((query) => query(MAKE)), 'No day of the history could be made')
}

/** Two steps, each in its own transaction. Usually the first detaches the oldest day, and the second drops it. */
export async function dropPartitions(database: Transactions): Promise<void> {
  for (let step = 0; step < 2; step += 1)
    valueOf(await database.transaction((query) => query(DROP)), 'No day of the history could be dropped')
}

/** Work that writes into the history: once more if its day was not there. Nobody led for a week, or a clock was moved. */
export async function withPartitions<T>(database: Transactions, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isNoPartition(error)) throw error
    await makePartitions(database).catch(() => Promise.reject(error)) // what failed is still the work
    return work()
  }
}
