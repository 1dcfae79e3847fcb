// One device of the page: it has its own client and reaches the fleet through its own pod. It keeps what the log does not have:
// through which pod it receives events, and how the attempts of each reply went. It also follows the inbox of the person, and says
// that the person has read the conversation that it shows, while the page is visible.
import {
  createClient,
  type InboxSnapshot,
  type Message,
  type Session,
  type Snapshot,
} from '@fleetline/client'
import { createCell, type Store } from './store.ts'
import { linesOf, type Line } from './lines.ts'
import { keepTrails, recallTrails } from './memory.ts'
import { follow, type Trail } from './trail.ts'
import type { Reply } from './words.ts'
import type { DeviceName } from '../../server/src/cli/dev/page/wire.ts'
import { DEV_USER } from '../../server/src/cli/dev/person.ts'

export type Device = Store<DeviceView> &
  Pick<Session, 'id' | 'send' | 'retry' | 'discard' | 'stop' | 'loadOlder'> & { readonly name: DeviceName }

export type DeviceView = {
  readonly snapshot: Snapshot
  /** As they are shown. */
  readonly messages: readonly Message[]
  /** The pod through which it receives events; null if none yet. */
  readonly pod: string | null
  /** By turn. */
  readonly trails: ReadonlyMap<string, Trail>
  readonly openedMs: number
  /** All conversations of the person. */
  readonly conversations: InboxSnapshot['sessions']
  /** What happened to the session and to the device, oldest first. */
  readonly lines: readonly Line[]
}

const [MOST_TRAILS, MOST_LINES] = [50, 80]
const EVENTS = 'text/event-stream'
const SESSION_EVENTS = /\/v1\/sessions\/[^/]+\/events/

export function createDevice(name: DeviceName, sessionName: string, now: () => number): Device {
  const kept = `${sessionName} ${name}`
  let pod: string | null = null
  const hear: typeof fetch = async (input, init) => {
    const answer = await globalThis.fetch(input, init)
    const isOfSession = SESSION_EVENTS.test(input instanceof Request ? input.url : String(input))
    if (answer.ok && isOfSession && new Headers(init?.headers).get('accept') === EVENTS)
      pod = answer.headers.get('x-fleetline-pod')
    return answer
  }
  const client = createClient({ url: `/devices/${name}`, fetch: hear })
  const [session, inbox] = [client.session(sessionName), client.inbox({ user: DEV_USER })]
  const first: DeviceView = {
    snapshot: session.get(),
    messages: [],
    pod,
    trails: recallTrails(kept),
    openedMs: now(),
    conversations: [],
    lines: [],
  }
  const cell = createCell(first)
  globalThis.addEventListener('pagehide', () => keepTrails(kept, cell.get().trails))
  let read = 0
  const markRead = () => {
    const { head } = session.get()
    const shown = inbox.get().sessions.find((one) => isNamed(one, sessionName))
    if (!shown || shown.unread === 0 || head <= Math.max(read, shown.read) || document.hidden) return
    read = head
    inbox.markRead(shown.session, head).catch(() => undefined) // the number stays
  }
  document.addEventListener('visibilitychange', markRead)
  inbox.subscribe(() => {
    markRead()
    cell.set({ ...cell.get(), conversations: inbox.get().sessions })
  })
  session.subscribe(() => {
    markRead()
    cell.set(next(cell.get(), { snapshot: session.get(), pod, name, nowMs: now() }))
  })
  const { id, send, retry, discard, stop, loadOlder } = session
  const { get, subscribe } = cell
  return { name, id, get, subscribe, send, retry, discard, stop, loadOlder }
}

/** Whether this is the conversation with this id or alias. */
export function isNamed({ session, alias }: InboxSnapshot['sessions'][number], name: string): boolean {
  return session === name || alias === name
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
    messages: snapshot.messages,
    trails: followed(view.trails, snapshot, nowMs),
    lines: lines.length === 0 ? view.lines : [...view.lines, ...lines].slice(-MOST_LINES),
  }
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
