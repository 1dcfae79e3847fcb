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

/** One step: it detaches a day, or drops one that was detached before. COMMIT goes in the same message: a pod that stands still
 *  between the two would hold a lock on the whole history. The COMMIT that follows has nothing to do. */
export async function dropPartitions(database: Transactions): Promise<void> {
  const outcome = await database.transaction((query) => query(`${DROP}; commit`))
  valueOf(outcome, 'No day of the history could be dropped')
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
