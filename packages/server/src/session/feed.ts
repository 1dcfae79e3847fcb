// Wakes who follows a session when it has grown, or its turn is another. It carries no message: what is told as
// stored was read by replay.ts, so nothing leaves as such that is not committed, and a wake-up too many or too late does no
// harm. Guarantees:
//   D2  a follower whose session has moved is woken, also if every hint is lost: by the next poll
//   S4  followers are found by (tenant, session), never by a session's id alone
//
//   what happens                           who is woken
//   a commit of this pod                   followers here, at once; other pods are sent a hint
//   a hint, a poll, a new follower         where the session stands is looked up, one statement for all that are to be
//                                          looked up; a higher head or phase wakes all whom it is news to
//   a lookup finds a lower one             all: the log is another one (a restore, a failover that lost its end), or the
//                                          lookup is older than a commit of this pod; who reads finds out, and one more
//                                          lookup settles it
//   a lookup fails                         nobody: the next poll looks again
//
// A log that was cut and has grown past the old head between two lookups is not noticed here.
import type { Clock } from '../lib/clock.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { nameOf, type SessionKey } from './place.ts'

/** Where a session stands. Both numbers only grow. */
export type Progress = { readonly head: number; readonly phase: number }
type Head = SessionKey & Progress

/** Resolves when the session may stand elsewhere than there, or the signal is aborted. */
export type Beyond = (seen: Progress, signal: AbortSignal) => Promise<void>

/** Of one follower. */
export type FeedPlace = {
  readonly join: (key: SessionKey) => Beyond
  readonly leave: () => void
}

export type Feed = {
  /** Counted from now until it leaves; undefined: there are as many followers as it takes. */
  readonly reserve: () => FeedPlace | undefined
  /** After commit only. */
  readonly grown: (sessions: Iterable<SessionKey & Moving>) => void
}

type Deps = {
  readonly database: Transactions
  readonly hints: Pick<Hints, 'listen' | 'send'>
  readonly metrics: Metrics
  readonly clock: Clock
  readonly maxFollowers: number
}

type Moving = { readonly head: number; readonly epoch: number; readonly turn: string | null }
type Waiting = { readonly seen: Progress; readonly wake: () => void }
type Joined = SessionKey & {
  stands: Progress
  followers: number
  readonly waiting: Set<Waiting>
  readonly unlisten: () => void
}

const HEADS = `
  select s.tenant, s.id as session, s.head, s.epoch, s.turn
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id`

export function createFeed(deps: Deps): Feed {
  const sessions = new Map<string, Joined>()
  let followers = 0
  const grow = ({ head, phase, ...key }: Head) => {
    const joined = sessions.get(nameOf(key))
    if (!joined || !isBeyond({ head, phase }, joined.stands)) return
    joined.stands = { head, phase }
    joined.waiting.forEach(({ seen, wake }) => isBeyond(joined.stands, seen) && wake())
  }
  const find = ({ head, phase, ...key }: Head) => {
    const joined = sessions.get(nameOf(key))
    if (!joined || !isBeyond(joined.stands, { head, phase })) return grow({ head, phase, ...key })
    joined.stands = { head, phase }
    joined.waiting.forEach(({ wake }) => wake())
    look(key)
  }
  const { look, rest } = createLookup(deps, (heads) => heads.forEach(find))
  const enter = (key: SessionKey): Joined => {
    const { tenant, session } = key
    const unlisten = deps.hints.listen(topicOf(key), () => look(key))
    const stands = { head: 0, phase: 0 }
    const joined = { tenant, session, stands, followers: 0, waiting: new Set<Waiting>(), unlisten }
    sessions.set(nameOf(key), joined)
    return joined
  }
  const part = (joined: Joined) => {
    joined.followers -= 1
    if (joined.followers > 0) return
    joined.unlisten()
    sessions.delete(nameOf(joined))
    if (sessions.size === 0) rest()
  }
  deps.metrics.gauge('followers', () => [[{}, followers]])
  return {
    grown: (moved) => {
      for (const session of moved) {
        grow(headOf(session))
        deps.hints.send(topicOf(session))
      }
    },
    reserve: () => {
      if (followers >= deps.maxFollowers) return undefined
      followers += 1
      let joined: Joined | undefined
      return {
        join: (key) => {
          const mine = (joined = sessions.get(nameOf(key)) ?? enter(key))
          mine.followers += 1
          look(key) // what was committed since its follower read: no seam
          return (seen, signal) => beyond(mine, seen, signal)
        },
        leave: () => {
          followers -= 1
          if (joined) part(joined)
        },
      }
    },
  }
}

function topicOf({ tenant, session }: SessionKey): string {
  return `s:${tenant}:${session}`
}

/** Even while no turn is live, odd while one is; the next turn has a higher one. */
export function phaseOf({ epoch, turn }: Omit<Moving, 'head'>): number {
  return 2 * epoch - (turn === null ? 0 : 1)
}

function headOf({ tenant, session, head, ...conversation }: SessionKey & Moving): Head {
  return { tenant, session, head, phase: phaseOf(conversation) }
}

/** In one of the two: what moves one never moves the other back. */
function isBeyond(a: Progress, b: Progress): boolean {
  return a.head > b.head || a.phase > b.phase
}

async function beyond(joined: Joined, seen: Progress, signal: AbortSignal): Promise<void> {
  if (isBeyond(joined.stands, seen) || signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const wake = () => resolve()
  const waiting = { seen, wake }
  joined.waiting.add(waiting)
  signal.addEventListener('abort', wake, { once: true })
  await promise
  signal.removeEventListener('abort', wake)
  joined.waiting.delete(waiting)
}

/** Looks up heads, one statement at a time: what is asked for meanwhile goes together into the next. */
function createLookup(
  { database, clock, metrics }: Deps,
  found: (heads: readonly Head[]) => void,
): { readonly look: (key: SessionKey) => void; readonly rest: () => void } {
  const wanted = new Map<string, SessionKey>()
  let running = false
  let sinceMs: number | undefined
  metrics.gauge('lookupLag', () => [[{}, sinceMs === undefined ? 0 : (clock.monotonicMs() - sinceMs) / 1000]])
  const read = async (keys: readonly SessionKey[]) => {
    const outcome = await database.transaction(
      (query) => query<SessionKey & Moving>(HEADS, columnsOf(keys, 'tenant', 'session')),
      { access: 'read' },
    )
    return valueOf(outcome, 'Heads cannot be read').map(headOf)
  }
  const run = async () => {
    running = true
    await Promise.resolve() // a poll calls listener after listener: they share a statement
    while (wanted.size > 0) {
      const [keys, startMs] = [[...wanted.values()], clock.monotonicMs()]
      wanted.clear()
      try {
        found(await read(keys))
        sinceMs = wanted.size > 0 ? startMs : undefined
      } catch {
        // the next poll asks again
      }
    }
    running = false
  }
  return {
    look: (key) => {
      wanted.set(nameOf(key), key)
      sinceMs ??= clock.monotonicMs()
      if (!running) void run()
    },
    /** Nobody waits for a head any more. */
    rest: () => {
      wanted.clear()
      sinceMs = undefined
    },
  }
}
