// Refused requests, on their way into the audit log. Equal ones become one row with a count, written every 5 seconds and when the
// pod stops. So a flood of requests is a few rows: at most 201 each time. Limits:
//   Callers that nobody knows are told apart by network and reason only, and take at most half of the rows, so that they leave room for
//   refused keys and users. One of these takes at most 20. Requests for which no row is left are counted in one with the target `others`.
//   If PostgreSQL does not answer, the rows wait for the next time. Those of a pod that is killed are lost, and if the answer to
//   COMMIT is lost, a row may be written twice.
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import { networkOf } from '../lib/network.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Log } from '../telemetry/log.ts'
import { actorOf, type Caller } from './actor.ts'
import type { Audit, RefusedRow } from './audit.ts'

export type RefusedRequest = {
  /** Null if the request names no genuine key or token. */
  readonly caller: Caller | null
  readonly address: string
  /** The method and the pattern of the route: `GET /v1/sessions/:session`. */
  readonly target: string
  /** A word of ours, never text of the caller. */
  readonly reason: string
}
export type Refusals = Service & { add(refused: RefusedRequest): void }
type Deps = { readonly audit: Pick<Audit, 'recordRefused'>; readonly clock: Clock; readonly log: Log }

const FLUSH_MS = 5_000
const MOST_ROWS = 200
const MOST_OF_STRANGERS = 100
const MOST_OF_ONE = 20
const NAME = 'refusals'
const OTHERS: RefusedRow = {
  name: 'nobody',
  via: null,
  address: null,
  tenant: null,
  target: 'others',
  reason: null,
  times: 1,
}

export function createRefusals({ audit, clock, log }: Deps): Refusals {
  let held = createTally()
  const flush = async () => {
    const rows = held.rows()
    if (rows.length === 0) return
    held = createTally()
    await audit.recordRefused(rows).catch((error: unknown) => {
      rows.forEach((row) => held.add(row))
      throw error
    })
  }
  const onError = (error: unknown) => log.warn('refused requests were not recorded', { service: NAME, error })
  const loop = every({ clock, name: NAME, everyMs: FLUSH_MS, onError }, flush)
  return {
    ...loop,
    stop: async () => {
      await loop.stop()
      await flush().catch(onError)
    },
    add: (refused) => held.add(rowOf(refused)),
  }
}

function rowOf({ caller, address, target, reason }: RefusedRequest): RefusedRow {
  const tenant = caller && caller.tenant
  const from = caller ? address : networkOf(address) // a stranger may have a whole network of addresses
  return { ...actorOf(caller, from), tenant, target: caller && target, reason, times: 1 }
}

function callerIn({ name, via, tenant }: RefusedRow): string {
  return JSON.stringify([name, via, tenant])
}

type Tally = { add(row: RefusedRow): void; rows(): RefusedRow[] }

/** Counts equal rows, and those for which there is no room. */
function createTally(): Tally {
  const counts = new Map<string, RefusedRow>()
  const rowsOf = new Map<string, number>() // by caller
  const hasRoom = (row: RefusedRow) => {
    const most = row.target === null ? MOST_OF_STRANGERS : MOST_OF_ONE
    return row.target === 'others' || (counts.size < MOST_ROWS && (rowsOf.get(callerIn(row)) ?? 0) < most)
  }
  const add = (row: RefusedRow): void => {
    const { times, ...rest } = row
    const key = JSON.stringify(Object.values(rest))
    const counted = counts.get(key)
    if (!counted && !hasRoom(row)) return add({ ...OTHERS, times })
    if (!counted) rowsOf.set(callerIn(row), (rowsOf.get(callerIn(row)) ?? 0) + 1)
    counts.set(key, { ...row, times: times + (counted?.times ?? 0) })
  }
  return { add, rows: () => [...counts.values()] }
}
