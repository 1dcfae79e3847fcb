// Turns shorthand events into the ones that they stand for: the first …_CHUNK of an item opens it, the next ones continue it, and whatever
// else is said closes it. Each subagent has an item of its own; an event without `subagentRunId` belongs to the agent itself.
import { ChunkError } from '@fleetline/protocol'
import type { AgUiEvent } from './parse-event.ts'

/** For each shorthand: the prefix of the whole events, the one with the content, and the field with the id. */
const KINDS = {
  TEXT_MESSAGE_CHUNK: {
    prefix: 'TEXT_MESSAGE',
    content: 'CONTENT',
    id: 'messageId',
    required: ['messageId'],
  },
  TOOL_CALL_CHUNK: {
    prefix: 'TOOL_CALL',
    content: 'ARGS',
    id: 'toolCallId',
    required: ['toolCallId', 'toolCallName'],
  },
  REASONING_MESSAGE_CHUNK: {
    prefix: 'REASONING_MESSAGE',
    content: 'CONTENT',
    id: 'messageId',
    required: ['messageId'],
  },
} as const
type Kind = (typeof KINDS)[keyof typeof KINDS]
type OpenItem = { readonly kind: Kind; readonly id: unknown }

/** These events do not close the open item. */
const BESIDE = new Set(['ACTIVITY_SNAPSHOT', 'ACTIVITY_DELTA', 'REASONING_ENCRYPTED_VALUE'])
const OF_THE_RUN = new Set(['RUN_STARTED', 'RUN_FINISHED', 'RUN_ERROR', 'MESSAGES_SNAPSHOT'])
const OF_THE_AGENT = ''
const MAX_SUBAGENTS = 100

export function createShorthandExpander(): (event: AgUiEvent) => AgUiEvent[] {
  const open = new Map<string, OpenItem>() // by subagent
  const close = (lane: string): AgUiEvent[] => {
    const item = open.get(lane)
    open.delete(lane)
    return item ? [{ type: `${item.kind.prefix}_END`, [item.kind.id]: item.id }] : []
  }
  /** Whose item a shorthand event continues or opens. */
  const laneOf = (kind: Kind, id: unknown, tag: unknown): string => {
    if (typeof tag === 'string') return tag
    const same = [...open].filter(([, item]) => item.kind === kind && (id === undefined || item.id === id))
    if (same.length === 0 || same.some(([lane]) => lane === OF_THE_AGENT)) return OF_THE_AGENT
    if (same.length > 1)
      throw new ChunkError(`${kind.prefix}_CHUNK: several subagents have one open`, {
        remedy: `Send ${kind.id} or subagentRunId to say which one continues`,
      })
    return same[0]![0]
  }
  const expand = (kind: Kind, event: AgUiEvent): AgUiEvent[] => {
    const lane = laneOf(kind, event[kind.id], event['subagentRunId'])
    const before = open.get(lane)
    const id = event[kind.id] ?? (before?.kind === kind ? before.id : undefined)
    const delta = event['delta'] === undefined ? [] : [contentOf(kind, id, event['delta'])]
    if (before?.kind === kind && before.id === id) return delta
    const missing = kind.required.find((name) => event[name] === undefined)
    if (missing !== undefined)
      throw new ChunkError(`${kind.prefix}_CHUNK: the first one must have ${missing}`)
    if (open.size === MAX_SUBAGENTS && !open.has(lane))
      throw new ChunkError(`${kind.prefix}_CHUNK: at most ${MAX_SUBAGENTS} subagents may speak at once`)
    const ended = close(lane)
    open.set(lane, { kind, id })
    return [...ended, { ...event, type: `${kind.prefix}_START` }, ...delta]
  }
  return (event) => {
    const kind = (KINDS as Readonly<Record<string, Kind>>)[event.type]
    if (kind) return expand(kind, event)
    if (BESIDE.has(event.type)) return [event]
    const tag = event['subagentRunId']
    const lanes = OF_THE_RUN.has(event.type)
      ? [...open.keys()]
      : [typeof tag === 'string' ? tag : OF_THE_AGENT]
    return [...lanes.flatMap(close), event]
  }
}

function contentOf({ prefix, content, id: field }: Kind, id: unknown, delta: unknown): AgUiEvent {
  return { type: `${prefix}_${content}`, [field]: id, delta }
}
