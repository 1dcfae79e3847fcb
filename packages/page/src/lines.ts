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
type Told = readonly [tone: Line['tone'], text: string]

type Before = Heard & {
  readonly name: string
  readonly openedMs: number
  readonly lines: readonly Line[]
}

/** What is new to the device. Messages committed before it was opened are not new. */
export function linesOf(before: Before, { snapshot, pod }: Heard, nowMs: number): readonly Line[] {
  const { name, snapshot: old, openedMs, lines } = before
  const moved: Told[] =
    pod && before.pod && pod !== before.pod ? [['plain', `the ${name} hears through ${pod} now`]] : []
  const told = [
    ...(snapshot.head > old.head ? committed(snapshot, old.head, openedMs) : []),
    ...turned(old.turn, snapshot.turn),
  ]
  const from = lines.at(-1)?.number ?? 0
  return [...moved, ...told].map(([tone, text], index) => ({
    key: `${name} ${from + index + 1}`,
    number: from + index + 1,
    about: index < moved.length ? 'device' : 'fleet',
    atMs: nowMs,
    tone,
    text,
  }))
}

function committed({ messages }: Snapshot, head: number, openedMs: number): Told[] {
  const fresh = messages.filter(
    ({ seq, at }) => at && Date.parse(at) >= openedMs && seq !== null && seq > head,
  )
  return fresh.map(({ seq, role, status }) => {
    const what =
      role === 'user' ? 'a message' : status === undefined ? 'the reply' : 'what the reply had said'
    return [role === 'user' ? 'plain' : 'good', `seq ${seq}: ${what} is committed`]
  })
}

function turned(old: Snapshot['turn'], turn: Snapshot['turn']): Told[] {
  if (!turn || (old?.id === turn.id && old.state === turn.state && old.attempt === turn.attempt)) return []
  const { state, attempt, pod, error } = turn
  if (state === 'running' && attempt === 1) return [['plain', `${pod} takes the turn`]]
  if (state === 'running') return [['good', `${pod} takes the turn again, attempt ${attempt}`]]
  if (state === 'queued' && attempt > 0)
    return [['plain', `attempt ${attempt} is over: the turn waits for a pod`]]
  if (state === 'failed') return [['bad', `the turn has failed: ${error?.message ?? 'it does not say why'}`]]
  if (state === 'stopped') return [['plain', 'the turn is stopped: it can write no more']]
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
  'an attempt that was taken over or cancelled changed nothing': (_, source) => [
    'good',
    `${source} comes too late with a write: fenced, nothing changed`,
  ],
  'counted as dead by the others': (_, source) => ['bad', `${source} learns that it was counted as dead`],
  'is killed': (_, source) => ['bad', `${source} is killed`],
  ended: ({ reason }, source) => {
    const why = String(reason)
    return [
      'plain',
      `${source} has ended${why.startsWith('SIGKILL') ? '' : ` (${why})`}, and is started again`,
    ]
  },
}

/** The last lines, in order of time. */
export function merged(most: number, ...lists: readonly (readonly Line[])[]): readonly Line[] {
  return lists
    .flat()
    .sort((a, b) => a.atMs - b.atMs)
    .slice(-most)
}
