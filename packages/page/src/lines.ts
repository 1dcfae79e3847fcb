// One line for each event: of the session as a device received it, and of the fleet from its logs. Pure.
import type { Snapshot } from '@fleetline/client'
import type { SceneEvent } from '../../server/src/cli/dev/page/wire.ts'
import { seconds } from './trail.ts'

export type Line = {
  readonly key: string
  /** Counted within its source. */
  readonly number: number
  /** Whether only this device sees it, or all do. */
  readonly about: 'device' | 'fleet'
  readonly atMs: number
  readonly tone: 'plain' | 'good' | 'bad'
  readonly text: string
}
type Heard = { readonly snapshot: Snapshot; readonly pod: string | null }
/** `atMs`: when it happened, if that is known. */
type Told = readonly [tone: Line['tone'], text: string, atMs?: number | undefined]

type Before = Heard & {
  readonly name: string
  readonly openedMs: number
  readonly lines: readonly Line[]
}

/** What is new to the device. Messages committed before it was opened are not new. */
export function linesOf(before: Before, { snapshot, pod }: Heard, nowMs: number): readonly Line[] {
  const { name, snapshot: old, openedMs, lines } = before
  const moved: Told[] =
    pod && before.pod && pod !== before.pod ? [['plain', `the ${name} is connected to ${pod} now`]] : []
  const told = [
    ...(snapshot.head > old.head ? committed(snapshot, old.head, openedMs) : []),
    ...turned(old.turn, snapshot.turn, openedMs),
  ]
  const from = lines.at(-1)?.number ?? 0
  return [...moved, ...told].map(([tone, text, atMs], index) => ({
    key: `${name} ${from + index + 1}`,
    number: from + index + 1,
    about: index < moved.length ? 'device' : 'fleet',
    atMs: atMs ?? nowMs,
    tone,
    text,
  }))
}

function committed({ messages }: Snapshot, head: number, openedMs: number): Told[] {
  const fresh = messages.filter(
    ({ seq, at }) => at && Date.parse(at) >= openedMs && seq !== null && seq > head,
  )
  return fresh.map(({ seq, role, status, at }) => {
    const what =
      role === 'user' ? 'a message' : status === undefined ? 'the reply' : `the words of the ${status} reply`
    const verb = status === undefined ? 'is' : 'are'
    return [role === 'user' ? 'plain' : 'good', `seq ${seq}: ${what} ${verb} committed`, Date.parse(at!)]
  })
}

function turned(old: Snapshot['turn'], turn: Snapshot['turn'], openedMs: number): Told[] {
  if (!turn || (old?.id === turn.id && old.state === turn.state && old.attempt === turn.attempt)) return []
  if (old?.id !== turn.id && Date.parse(turn.startedAt) < openedMs) return [] // from before the page was opened
  const { state, attempt, pod, error } = turn
  const endedMs = turn.endedAt === null ? undefined : Date.parse(turn.endedAt)
  if (state === 'running' && attempt === 1) return [['plain', `${pod} takes the turn`]]
  if (state === 'running') return [['good', `${pod} takes the turn again, attempt ${attempt}`]]
  if (state === 'queued' && attempt > 0)
    return [['plain', `attempt ${attempt} is over: the turn waits for a pod`]]
  if (state === 'failed') {
    const why = error?.message ?? 'it does not say why'
    return [['bad', `the turn has failed: ${why}`, endedMs]]
  }
  if (state === 'stopped') return [['plain', 'somebody stops the turn: it can write no more', endedMs]]
  return []
}

export function lineOf(event: SceneEvent): Line {
  const { number, at, source, level, message, fields } = event
  const words = Object.hasOwn(WORDS, message) ? WORDS[message] : undefined
  const [tone, text] = words?.(fields, source) ?? [
    level === 'error' ? 'bad' : 'plain',
    `${source}${IS_VERB.test(message) ? '' : ':'} ${message}${fields['reason'] === undefined ? '' : ` (${fields['reason'] as string})`}`,
  ]
  return { key: `event ${number}`, number, about: 'fleet', atMs: Date.parse(at), tone, text }
}

/** A phrase that continues a pod's name. */
const IS_VERB = /^(is|leads|hands) /

type Fields = SceneEvent['fields']

const FENCED = 'an attempt that was taken over or cancelled changed nothing'
const WORDS: Readonly<Record<string, (fields: Fields, source: string) => Told>> = {
  'joined the fleet': ({ pod }, source) => ['plain', `${source} joins the fleet, as no. ${String(pod)}`],
  'leads the fleet': ({ term }, source) => ['plain', `${source} leads the fleet, term ${String(term)}`],
  'counts a pod as dead': ({ pod, duration_ms: ms }, source) => [
    'bad',
    `${source} counts no. ${String(pod)} as dead, ${seconds(Number(ms))} after its last beat`,
  ],
  'returned claims of dead pods': ({ data }, source) => [
    'good',
    `${source} returns claims of the dead: ${String(data)}`,
  ],
  [FENCED]: (_, source) => ['good', `${source} comes too late with a write: fenced, nothing changed`],
  'a stopped turn has halted': ({ duration_ms: ms }, source) => [
    'plain',
    `${source}: the agent of the stopped turn has ended, ${seconds(Number(ms))} after the stop`,
  ],
  'counted as dead by the others': (_, source) => ['bad', `${source} learns that it was counted as dead`],
  loaded: ({ data }, source) => ['plain', `${source} loads ${namesIn(data)}`],
  'a task is dead': ({ machine, code }, source) => [
    'bad',
    `${source}: a task${typeof machine === 'string' ? ` of ${machine}` : ''} is dead (${String(code)}); the terminal shows why`,
  ],
  'an agent failed': ({ data, code, reason, isThrown }, source) => [
    'bad',
    `${source}: ${agentIn(data)} has failed (${String(reason ?? code)})${isThrown === true ? '; the terminal shows why' : ''}`,
  ],
  'is killed': (_, source) => ['bad', `${source} is killed`],
  ended: ({ reason }, source) => {
    const why = String(reason)
    return [
      'plain',
      `${source} has ended${why.startsWith('SIGKILL') ? '' : ` (${why})`}, and is started again`,
    ]
  },
}

function agentIn(data: unknown): string {
  const { agent } = (data ?? {}) as { readonly agent?: unknown }
  return typeof agent === 'string' ? `the agent ${agent}` : 'an agent'
}

/** Of what an app exports, by kind. */
function namesIn(data: unknown): string {
  return Object.values((data ?? {}) as Readonly<Record<string, readonly string[]>>)
    .flat()
    .join(', ')
}

/** Without the events that say nothing more: a pod that is ready has joined, and a stop fences the attempt that it stops, which is
 *  the last one. `stopped`: the turn that the devices know to be stopped. */
export function worthTelling(events: readonly SceneEvent[], stopped: string | null): readonly SceneEvent[] {
  const halted = events.filter(({ message }) => message === 'a stopped turn has halted')
  const tasks = new Set(halted.map(({ fields }) => String(fields['task'])))
  if (stopped !== null) tasks.add(stopped.replace(/^turn_/, 'tsk_')) // a turn and its task share an id
  const last = new Map<string, SceneEvent>()
  for (const event of events) if (event.message === FENCED) last.set(String(event.fields['task']), event)
  const isOfStop = (event: SceneEvent) => {
    const task = String(event.fields['task'])
    return event.message === FENCED && tasks.has(task) && last.get(task) === event
  }
  return events.filter((event) => event.message !== 'ready' && !isOfStop(event))
}

/** The last lines, in order of time. */
export function merged(most: number, ...lists: readonly (readonly Line[])[]): readonly Line[] {
  return lists
    .flat()
    .sort((a, b) => a.atMs - b.atMs)
    .slice(-most)
}
