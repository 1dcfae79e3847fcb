// The pod's side of the shares. In each round, one statement reports the pod's load and reads its shares. Rounds run once a
// second while any downstream is in use. A round runs at once when a downstream comes into use, when a share was cut (so that
// others may have it), and when a provider asked for a long pause, which applies to all pods. No call waits for a round:
// without rounds, leases expire and safe shares apply. The last round reports what this pod no longer uses, so that others
// do not wait for the end of its lease.
import { createBell } from '../../lib/bell.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { valueOf, type Transactions } from '../../store/database.ts'
import type { Log } from '../../telemetry/log.ts'
import { LEASE_MS, type HeardOffer } from './lease.ts'
import type { Load } from './ledger.ts'

/** `wideMs`: how long all pods must pause. */
export type Report = { readonly load: Load; readonly wideMs: number | undefined }
/** One downstream of this pod, as rounds use it. */
export type Reporter = {
  /** Returns what happened since the last report. */
  readonly takeReport: () => Report
  /** Applies what was read. `offer` is undefined if there is no row. */
  readonly applyOffer: (offer: HeardOffer | undefined, sentMs: number) => void
  /** Sends nothing from now on if no call is in flight or waits. Once that is reported, its share is free. */
  readonly close: () => void
}
export type Rounds = Service & {
  /** Runs a round soon, because there is something to report. */
  readonly wake: () => void
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly log: Log
  readonly reporters: () => ReadonlyMap<string, Reporter>
  /** This pod's number, while it is registered. */
  readonly self: () => number | undefined
}
type Answer = HeardOffer & { readonly key: string }

export const ROUND_MS = 1_000
export const LEAST_MS = 50
const DEADLINE_MS = 5_000

// $1 pod · $2 its loads · $3 pauses for all pods: [{key, ms}]; a pause only becomes longer · $4 keys.
// The lease of a share ends with the report that it was given for (`ledger`).
const ROUND = `
  with told as (
    insert into fleetline.downstream_loads (pod, at, loads) values ($1, clock_timestamp(), $2)
    on conflict (pod) do update set at = excluded.at, loads = excluded.loads),
  paused as (
    update fleetline.downstreams d set pause_until = clock_timestamp() + p.ms * interval '1 ms'
      from jsonb_to_recordset($3) as p(key text, ms float8)
     where d.key = p.key
       and coalesce(d.pause_until, '-infinity') < clock_timestamp() + (p.ms - 500) * interval '1 ms')
  select d.key, d.gen::float8, d.capacity is not null as "isLearnt", d.safe_share as safe,
         not (d.memory ->> 'isRefusing')::boolean as "isClean", (e.entry ->> 'share')::int as share,
         (extract(epoch from least(d.expires_at,
           to_timestamp((e.entry ->> 'at')::float8 / 1000) + ${LEASE_MS} * interval '1 ms') - clock_timestamp()) * 1000
         )::float8 as "leftMs",
         coalesce(extract(epoch from d.pause_until - clock_timestamp()) * 1000, 0)::float8 as "pauseMs"
    from fleetline.downstreams d, lateral (select d.shares -> $1::text as entry) e
   where d.key = any ($4)`

export function createRounds({ database, clock, log, reporters, self }: Deps): Rounds {
  const bell = createBell(clock)
  let isStopping = false
  let isSilent = false
  let loop: Promise<void> | undefined
  const round = async (pod: number) => {
    const inUse = new Map(reporters())
    if (inUse.size === 0) return
    const sentMs = clock.monotonicMs()
    const reports = [...inUse].map(([key, one]) => ({ key, ...one.takeReport() }))
    const loads = Object.fromEntries(reports.map(({ key, load }) => [key, load]))
    const pauses = reports.flatMap(({ key, wideMs: ms }) => (ms === undefined ? [] : [{ key, ms }]))
    const values = [pod, JSON.stringify(loads), JSON.stringify(pauses), [...inUse.keys()]]
    const outcome = await database.transaction((query) => query<Answer>(ROUND, values), {
      deadlineMs: DEADLINE_MS,
    })
    const answers = new Map(valueOf(outcome, 'Shares cannot be read').map((row) => [row.key, row]))
    for (const [key, one] of inUse) one.applyOffer(answers.get(key), sentMs)
    if (isSilent) log.info('shares are read again')
    isSilent = false
  }
  const failed = (error: unknown) => {
    if (!isSilent) log.warn('shares cannot be read; leases run out', { error })
    isSilent = true
  }
  const leave = async () => {
    const pod = self()
    if (pod === undefined || isSilent) return
    for (const one of reporters().values()) one.close()
    await round(pod).catch(failed)
  }
  const run = async () => {
    while (!isStopping) {
      const pod = self()
      if (pod !== undefined) await round(pod).catch(failed)
      await clock.sleep(LEAST_MS)
      if (!isStopping) await bell.wait(ROUND_MS - LEAST_MS)
    }
  }
  return {
    name: 'throttle',
    start: async () => void (loop ??= run()),
    stop: async () => {
      isStopping = true
      bell.ring()
      await loop
      if (loop) await leave()
      loop = undefined
    },
    wake: () => bell.ring(),
  }
}
