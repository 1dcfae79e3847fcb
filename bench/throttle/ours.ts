// Fleetline in virtual time. The product's own functions compute the gate of every pod, the load that it reports, the row of
// the leader and the lease that results. A row, a map of loads, and the time that a pod's statement takes stand in for
// PostgreSQL; the leader's statement takes no time. The queue, claims and waiting calls are not simulated: every pod has more
// to send than it may.
import { createGate, type Gate } from '../../packages/server/src/throttle/pod/gate.ts'
import { LEASE_MS } from '../../packages/server/src/throttle/fleet/lease.ts'
import {
  isNews,
  nextRow,
  type LedgerRow,
  type ToldLoad,
} from '../../packages/server/src/throttle/fleet/ledger.ts'
import { START } from '../../packages/server/src/throttle/definition.ts'
import { LEAST_MS, ROUND_MS } from '../../packages/server/src/throttle/fleet/rounds.ts'
import { capOf, type Rules } from '../../packages/server/src/throttle/pod/window.ts'
import type { Chance } from './chance.ts'
import type { Entrant, Fleet, World } from './entrant.ts'
import type { Timeline } from './timeline.ts'

const WAY_MS = 5 // to the database, and the same back
const BACKGROUND = { start: START, most: 200 }
const AWAITED = { start: 1_000, most: 1_000 } // an agent's own downstream: as many calls as a pod has slots for turns

type Store = { row: LedgerRow | undefined; pauseUntilMs: number; readonly told: Map<number, ToldLoad> }

/** Work that nobody waits for. */
export const OURS: Entrant = oursWith('ours', BACKGROUND)
/** Turns of an agent, for which people wait. */
export const OURS_AWAITED: Entrant = oursWith('ours, awaited', AWAITED)

function oursWith(name: string, rules: Rules): Entrant {
  const open = ({ timeline, chance }: World): Fleet => {
    const store: Store = { row: undefined, pauseUntilMs: 0, told: new Map() }
    const pods = new Map<number, Gate>()
    lead(timeline, store, chance.unit() * ROUND_MS)
    return {
      join: (pod) => void pods.set(pod, gateOf({ timeline, chance, store, pod, rules })),
      maySend: (pod) => pods.get(pod)!.waiters.tryEnter(),
      sent: () => undefined, // `tryEnter` has taken the permit already
      ended: (pod, end) => pods.get(pod)!.end(end),
      limit: () => [...pods.values()].reduce((sum, gate) => sum + capOf(gate.window(), timeline.now()), 0),
    }
  }
  return { name, open }
}

function lead(timeline: Timeline, store: Store, phaseMs: number): void {
  const tick = () => {
    const nowMs = timeline.now()
    const told = [...store.told.values()].filter(({ at }) => nowMs - at < LEASE_MS)
    const next = told.length === 0 ? undefined : nextRow(store.row, told, nowMs)
    if (next && isNews(store.row, next, nowMs)) store.row = next
    timeline.at(nowMs + ROUND_MS, tick)
  }
  timeline.at(phaseMs, tick)
}

type Made = {
  readonly timeline: Timeline
  readonly chance: Chance
  readonly store: Store
  readonly pod: number
  readonly rules: Rules
}

/** The gate of a pod. In each round it reports its load and reads its share, as `throttle/fleet/rounds` does. */
function gateOf({ timeline, chance, store, pod, rules }: Made): Gate {
  const clock = { now: timeline.now, monotonicMs: timeline.now, sleep: () => Promise.resolve() } // no call waits
  const random = { unit: chance.unit, bytes: () => new Uint8Array() }
  const meter = { asked: () => undefined, ended: () => undefined }
  let [isRung, rounds] = [false, 0]
  const gate = createGate({ clock, random, rules, meter, onNews: () => void (isRung = true) })
  const round = () => {
    isRung = false
    rounds += 1
    const sentMs = timeline.now()
    const { load, wideMs } = gate.takeReport(true)
    timeline.at(sentMs + WAY_MS, () => {
      const nowMs = timeline.now()
      store.told.set(pod, { pod, at: nowMs, load })
      if (wideMs !== undefined) store.pauseUntilMs = Math.max(store.pauseUntilMs, nowMs + wideMs)
      const offer = offerTo(store, pod, nowMs)
      timeline.at(nowMs + WAY_MS, () => {
        gate.applyOffer(offer, sentMs)
        waitFrom(rounds, timeline.now() + ROUND_MS)
      })
    })
  }
  /** Checks for news every `LEAST_MS`, the shortest time between rounds. Runs a round on news, or at `lastMs`. */
  const waitFrom = (nth: number, lastMs: number) => {
    timeline.at(timeline.now() + LEAST_MS, () => {
      if (nth === rounds && (isRung || timeline.now() >= lastMs)) round()
      else if (nth === rounds) waitFrom(nth, lastMs)
    })
  }
  timeline.at(timeline.now() + chance.unit() * LEAST_MS, round) // the downstream comes into use
  return gate
}

function offerTo(
  { row, pauseUntilMs }: Store,
  pod: number,
  nowMs: number,
): Parameters<Gate['applyOffer']>[0] {
  if (!row) return undefined
  const entry = row.shares[pod]
  const untilMs = Math.min(row.expiresMs, entry ? entry.at + LEASE_MS : row.expiresMs)
  return {
    gen: row.gen,
    isLearnt: row.capacity !== null,
    isClean: !row.memory.isRefusing,
    share: entry?.share ?? null,
    safe: row.safe,
    leftMs: untilMs - nowMs,
    pauseMs: Math.max(0, pauseUntilMs - nowMs),
  }
}
