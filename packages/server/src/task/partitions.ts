// The daily partitions of the history. They are made a week ahead, and dropped whole when no queue keeps them any more. The
// functions belong to the migrator, so a pod's role needs no right to create tables. A long read of the history delays neither
// of them. A settlement waits at most 20 ms for each try to drop a day. If the lock is not free, the next call tries again.
import { valueOf, type Transactions } from '../store/database.ts'
import { isNoPartition } from '../store/sqlstate.ts'

const MAKE = 'select fleetline.make_partitions(7)'
const DROP = 'select fleetline.drop_partitions()'

export async function makePartitions(database: Transactions): Promise<void> {
  valueOf(await database.transaction((query) => query(MAKE)), 'No day of the history could be made')
}

/** One step: it detaches a day, or drops one that was detached before. COMMIT is in the same message: a pod that hangs between
 *  the two would hold a lock on the whole history. The COMMIT that follows has nothing to do. */
export async function dropPartitions(database: Transactions): Promise<void> {
  const outcome = await database.transaction((query) => query(`${DROP}; commit`))
  valueOf(outcome, 'No day of the history could be dropped')
}

/**
 * Runs work that writes into the history. If the partition of the day is missing, makes it and runs the work once more. It is
 * missing if nobody led for a week, or if a clock was moved.
 */
export async function withPartitions<T>(database: Transactions, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isNoPartition(error)) throw error
    await makePartitions(database).catch(() => Promise.reject(error)) // report the failure of the work
    return work()
  }
}
