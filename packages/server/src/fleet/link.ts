// The connection on which a pod beats: its own, so that a full pool is not a death. One that failed or did not answer
// in time is closed without a farewell, and the next beat opens another.
import type pg from 'pg'
import type { Query } from '../store/database.ts'
import { closeNow, connect } from '../store/connection.ts'

export type Link = {
  /** What it rejects with says nothing about what was written. */
  use<T>(work: (query: Query) => Promise<T>): Promise<T>
  close(): void
}
type Deps = { readonly url: string; readonly statementMs: number }

const UNREPLICATED = new Error('The wait for a standby was cut short: committed here, perhaps nowhere else')

export function createLink({ url, statementMs }: Deps): Link {
  let client: pg.Client | undefined
  let isUnreplicated = false
  const open = async () => {
    const opened = await connect({ url, name: 'fleetline beat', connectMs: statementMs, statementMs })
    opened.on('notice', ({ routine }) => {
      isUnreplicated ||= routine === 'SyncRepWaitForLSN'
    })
    return opened
  }
  const close = () => {
    if (client) closeNow(client)
    client = undefined
  }
  return {
    close,
    use: async (work) => {
      try {
        const link = (client ??= await open())
        isUnreplicated = false
        const value = await work(async (text, values) => (await link.query(text, values && [...values])).rows)
        if (isUnreplicated) throw UNREPLICATED
        return value
      } catch (error) {
        close()
        throw error
      }
    },
  }
}
