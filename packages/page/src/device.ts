// One device of the page: it has its own client and reaches the fleet through its own pod. It keeps what the log does not have:
// through which pod it receives events, and how the attempts of each reply went.
import { createClient, type Message, type Session, type Snapshot } from '@fleetline/client'
import { createCell, type Store } from './store.ts'
import { linesOf, type Line } from './lines.ts'
import { keepTrails, recallTrails } from './memory.ts'
import { steady } from './steady.ts'
import { follow, type Trail } from './trail.ts'
import type { Reply } from './words.ts'
import type { DeviceName } from '../../server/src/cli/dev/page/wire.ts'

export type Device = Store<DeviceView> &
  Pick<Session, 'send' | 'retry' | 'discard' | 'stop'> & { readonly name: DeviceName }

export type DeviceView = {
  readonly snapshot: Snapshot
  /** As they are shown. */
  readonly messages: readonly Message[]
  /** The pod through which it receives events; null if none yet. */
  readonly pod: string | null
  /** By turn. */
  readonly trails: ReadonlyMap<string, Trail>
  readonly openedMs: number
  /** What happened to the session and to the device, oldest first. */
  readonly lines: readonly Line[]
}

const [MOST_TRAILS, MOST_LINES] = [50, 80]
const EVENTS = 'text/event-stream'

export function createDevice(name: DeviceName, sessionName: string, now: () => number): Device {
  const kept = `${sessionName} ${name}`
  let pod: string | null = null
  const hear: typeof fetch = async (input, init) => {
    const answer = await globalThis.fetch(input, init)
    if (answer.ok && new Headers(init?.headers).get('accept') === EVENTS)
      pod = answer.headers.get('x-fleetline-pod')
    return answer
  }
  const session = createClient({ url: `/devices/${name}`, fetch: hear }).session(sessionName)
  const first: DeviceView = {
    snapshot: session.get(),
    messages: [],
    pod,
    trails: recallTrails(kept),
    openedMs: now(),
    lines: [],
  }
  const cell = createCell(first)
  globalThis.addEventListener('pagehide', () => keepTrails(kept, cell.get().trails))
  session.subscribe(() => cell.set(next(cell.get(), { snapshot: session.get(), pod, name, nowMs: now() })))
  const { send, retry, discard, stop } = session
  return { name, get: cell.get, subscribe: cell.subscribe, send, retry, discard, stop }
}

type Heard = {
  readonly snapshot: Snapshot
  readonly pod: string | null
  readonly name: DeviceName
  readonly nowMs: number
}

export function next(view: DeviceView, { snapshot, pod, name, nowMs }: Heard): DeviceView {
  const lines = linesOf({ ...view, name }, { snapshot, pod }, nowMs)
  return {
    ...view,
    snapshot,
    pod,
    messages: steadied(view.messages, snapshot),
    trails: followed(view.trails, snapshot, nowMs),
    lines: lines.length === 0 ? view.lines : [...view.lines, ...lines].slice(-MOST_LINES),
  }
}

/** A new attempt that has said nothing yet does not remove what is shown. */
function steadied(shown: readonly Message[], { messages: said, turn }: Snapshot): readonly Message[] {
  const [before, last] = [shown.at(-1), said.at(-1)]
  const isLive = turn !== null && turn.endedAt === null && before?.turn === turn.id
  const isHeld = before?.delivery === 'open' && isLive && !said.some((message) => message.turn === turn.id)
  if (isHeld) return [...said, before]
  const kept = steady(before, last)
  return kept === undefined || kept === last ? said : [...said.slice(0, -1), kept]
}

/** The live turn, or the last one, with the attempt that this device knows. */
export function replyOf({ snapshot: { turn }, trails }: DeviceView): Reply {
  return { turn, sinceMs: (turn && trails.get(turn.id)?.attempts.at(-1)?.atMs) ?? 0 }
}

function followed(trails: DeviceView['trails'], snapshot: Snapshot, nowMs: number): DeviceView['trails'] {
  const { turn } = snapshot
  const trail = turn && follow(trails.get(turn.id) ?? null, snapshot, nowMs)
  if (!trail || trail === trails.get(trail.turn)) return trails
  return new Map([...trails, [trail.turn, trail] as const].slice(-MOST_TRAILS))
}
