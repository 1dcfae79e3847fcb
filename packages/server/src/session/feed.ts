// Wakes the followers of a session when its log has grown, its turn has changed, or messages were erased. A wake-up carries no message: followers
// read from replay.ts, so they never report anything as stored that is not committed. An extra or late wake-up does no harm.
// Guarantees:
//   D2  a follower whose session has moved is woken by the next poll, even if every hint is lost
//   S4  followers are found by (tenant, session), never by the session's id alone
//
//   what happens                           who is woken
//   this pod commits                       followers on this pod, at once; other pods are sent a hint
//   a hint, a poll, a new follower         one statement looks up head, phase and version of all sessions in question; a
//                                          higher one wakes the followers that have not seen it
//   a lookup finds a lower one             all. Either the log is another one (after a restore, or a failover that lost the
//                                          end of the log), or the lookup is older than a commit of this pod. Followers
//                                          find out which when they read; one more lookup settles it.
//   a lookup fails                         nobody: the next poll looks again
//
// Limit: if a log is cut and grows past its old head between two lookups, this module does not notice.
import { Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { nameOf, type SessionKey } from './items.ts'

/** How far a session has come. All numbers only grow. The version counts changes that move neither head nor phase. */
export type Progress = { readonly head: number; readonly phase: number; readonly version: number }
type Head = SessionKey & Progress

/** Resolves when the session may have moved away from `seen`, or the signal is aborted. */
export type Beyond = (seen: Progress, signal: AbortSignal) => Promise<void>

/** The place of one follower. */
export type FeedPlace = {
  readonly join: (key: SessionKey) => Beyond
  readonly leave: () => void
}

export type Feed = {
  /** The place counts until it is left. Throws if the pod has reached its limit of followers. */
  readonly reserve: () => FeedPlace
  /** Call it after the commit only. */
  readonly grown: (sessions: Iterable<SessionKey & Moving>) => void
  /** Call it after a commit that raised the session's version, but neither its head nor its phase. */
  readonly notifyChanged: (key: SessionKey) => void
}

type Deps = {
  readonly database: Transactions
  readonly hints: Pick<Hints, 'listen' | 'send'>
  readonly metrics: Metrics
  readonly clock: Clock
  readonly maxFollowers: number
}

type Moving = Pick<Progress, 'head' | 'version'> & { readonly epoch: number; readonly turn: string | null }
type Waiting = { readonly seen: Progress; readonly wake: () => void }
type Joined = SessionKey & {
  stands: Progress
  followers: number
  readonly waiting: Set<Waiting>
  readonly unlisten: () => void
}

const HEADS = `
  select s.tenant, s.id as session, s.head, s.epoch, s.turn, s.version
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id`

export function createFeed(deps: Deps): Feed {
  const sessions = new Map<string, Joined>()
  let followers = 0
  const grow = ({ head, phase, version, ...key }: Head) => {
    const joined = sessions.get(nameOf(key))
    if (!joined || !isBeyond({ head, phase, version }, joined.stands)) return
    joined.stands = { head, phase, version }
    joined.waiting.forEach(({ seen, wake }) => isBeyond(joined.stands, seen) && wake())
  }
  const find = (found: Head) => {
    const { head, phase, version, ...key } = found
    const joined = sessions.get(nameOf(key))
    if (!joined || !isBeyond(joined.stands, found)) return grow(found)
    joined.stands = { head, phase, version }
    joined.waiting.forEach(({ wake }) => wake())
    look(key)
  }
  const { look, rest } = createLookup(deps, (heads) => heads.forEach(find))
  const enter = (key: SessionKey): Joined => {
    const { tenant, session } = key
    const unlisten = deps.hints.listen(topicOf(key), () => look(key))
    const stands = { head: 0, phase: 0, version: 0 }
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
    notifyChanged: (key) => {
      if (sessions.has(nameOf(key))) look(key)
      deps.hints.send(topicOf(key))
    },
    reserve: () => {
      if (followers >= deps.maxFollowers)
        throw new Retry('unavailable', 'This pod has as many followers as it takes')
      followers += 1
      let joined: Joined | undefined
      return {
        join: (key) => {
          const mine = (joined = sessions.get(nameOf(key)) ?? enter(key))
          mine.followers += 1
          look(key) // finds what was committed since the follower read, so that nothing is missed
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

/** Even while no turn is live, odd while one is. Each turn has a higher phase than the turn before. */
export function phaseOf({ epoch, turn }: Pick<Moving, 'epoch' | 'turn'>): number {
  return 2 * epoch - (turn === null ? 0 : 1)
}

function headOf({ tenant, session, head, version, ...conversation }: SessionKey & Moving): Head {
  return { tenant, session, head, version, phase: phaseOf(conversation) }
}

/** One higher number is enough: what raises one never lowers the other. */
function isBeyond(a: Progress, b: Progress): boolean {
  return a.head > b.head || a.phase > b.phase || a.version > b.version
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

/** Looks up heads, one statement at a time. Requests that arrive meanwhile share the next statement. */
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
    await Promise.resolve() // a poll calls one listener after another; this way they share a statement
    while (wanted.size > 0) {
      const [keys, startMs] = [[...wanted.values()], clock.monotonicMs()]
      wanted.clear()
      try {
        found(await read(keys))
        sinceMs = wanted.size > 0 ? startMs : undefined
      } catch {
        // the next poll tries again
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
    /** Call it when nobody waits for a head any more. */
    rest: () => {
      wanted.clear()
      sinceMs = undefined
    },
  }
}
