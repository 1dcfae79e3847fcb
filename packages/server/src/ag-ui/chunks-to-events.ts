// Turns the chunks of one reply into AG-UI events.
//
//   chunk                          events
//   text-…, reasoning-…            TEXT_MESSAGE_…, REASONING_…
//   tool-input-…                   TOOL_CALL_START, TOOL_CALL_ARGS, TOOL_CALL_END
//   tool-output-…                  TOOL_CALL_RESULT; of preliminary outputs only the last one, at the end
//   data-…, file, source, …        ACTIVITY_SNAPSHOT; transient data: CUSTOM; the agent's state: STATE_SNAPSHOT
//   any other                      none
// Any chunks give a sequence of events that AG-UI allows. AG-UI cannot begin a call again or replace its result; then the first one stays, and
// the reader's messages differ from the stored ones: reader-messages.ts.
import type { Chunk } from '@fleetline/protocol'
import { STATE } from './state-and-activities.ts'
import type { AgUiEvent } from './parse-event.ts'
import { createMessageIds, idOfCall, idOfResult, type MessageIds } from './message-ids.ts'
import { activityOf, argumentsOf, encryptedIn, isUnseen, resultOf } from './messages.ts'

export type ChunksToEvents = {
  readonly write: (chunk: Chunk) => AgUiEvent[]
  /** Ends what is open. */
  readonly close: () => AgUiEvent[]
}
type Of<Type> = Extract<Chunk, { readonly type: Type }>

/** `mark`: makes the ids of reasonings differ from those that the reader has. */
export function createChunksToEvents(reply: string, mark?: string): ChunksToEvents {
  const ids = createMessageIds(reply, mark)
  const writers = [createWords(ids), createCalls(reply, ids), createOthers(ids)]
  return {
    write: (chunk) => {
      if (chunk.type === 'start-step') ids.startStep()
      return writers.flatMap(({ write }) => write(chunk))
    },
    close: () => writers.flatMap(({ close }) => close()),
  }
}

const PREFIX = { text: 'TEXT_MESSAGE', reasoning: 'REASONING_MESSAGE' } as const
type Words = keyof typeof PREFIX
type WordsChunk = Of<`${Words}-${'start' | 'delta' | 'end'}`>

/** Texts and reasonings. A second one with the same id ends the first. */
function createWords(ids: MessageIds): ChunksToEvents {
  const open = { text: new Map<string, string>(), reasoning: new Map<string, string>() }
  const end = (kind: Words, id: string, described?: unknown): AgUiEvent[] => {
    const messageId = open[kind].get(id)
    if (messageId === undefined) return []
    open[kind].delete(id)
    return [
      { type: `${PREFIX[kind]}_END`, messageId },
      ...encryptedOf('message', messageId, described),
      ...(kind === 'reasoning' ? [{ type: 'REASONING_END', messageId }] : []),
    ]
  }
  const begin = (kind: Words, id: string): AgUiEvent[] => {
    const ended = end(kind, id)
    const messageId = kind === 'text' ? ids.forText() : ids.forReasoning()
    open[kind].set(id, messageId)
    const role = kind === 'text' ? 'assistant' : 'reasoning'
    return [
      ...ended,
      ...(kind === 'reasoning' ? [{ type: 'REASONING_START', messageId }] : []),
      { type: `${PREFIX[kind]}_START`, messageId, role },
    ]
  }
  const grow = (kind: Words, id: string, delta: string): AgUiEvent[] => [
    { type: `${PREFIX[kind]}_CONTENT`, messageId: open[kind].get(id)!, delta },
  ]
  const tell = (chunk: WordsChunk): AgUiEvent[] => {
    const kind = chunk.type.startsWith('text') ? 'text' : 'reasoning'
    switch (chunk.type) {
      case 'text-start':
      case 'reasoning-start':
        return begin(kind, chunk.id)
      case 'text-delta':
      case 'reasoning-delta':
        return grow(kind, chunk.id, chunk.delta)
      case 'text-end':
      case 'reasoning-end':
        return end(kind, chunk.id, chunk.providerMetadata)
    }
  }
  return {
    write: (chunk) => (isWords(chunk) ? tell(chunk) : []),
    close: () => [
      ...[...open.text.keys()].flatMap((id) => end('text', id)),
      ...[...open.reasoning.keys()].flatMap((id) => end('reasoning', id)),
    ],
  }
}

function isWords(chunk: Chunk): chunk is WordsChunk {
  return /^(?:text|reasoning)-(?:start|delta|end)$/.test(chunk.type)
}

type WrittenCall = {
  isOpen: boolean
  hasArguments: boolean
  hasResult: boolean
  preliminary?: Of<'tool-output-available'> | undefined
}

/** Calls of tools and their results. */
function createCalls(reply: string, ids: MessageIds): ChunksToEvents {
  const calls = new Map<string, WrittenCall>()
  const named = (toolCallId: string) => idOfCall(reply, toolCallId)
  const begin = (
    chunk: Of<'tool-input-start' | 'tool-input-available' | 'tool-input-error'>,
  ): AgUiEvent[] => {
    const { toolCallId, toolName: toolCallName, providerMetadata } = chunk
    if (calls.has(toolCallId)) return []
    calls.set(toolCallId, { isOpen: true, hasArguments: false, hasResult: false })
    const start = {
      type: 'TOOL_CALL_START',
      toolCallId: named(toolCallId),
      toolCallName,
      parentMessageId: ids.forCall(),
    }
    return [start, ...encryptedOf('tool-call', named(toolCallId), providerMetadata)]
  }
  const grow = (toolCallId: string, delta: string): AgUiEvent[] => {
    const call = calls.get(toolCallId)
    if (!call?.isOpen || delta === '') return []
    call.hasArguments = true
    return [{ type: 'TOOL_CALL_ARGS', toolCallId: named(toolCallId), delta }]
  }
  const end = (toolCallId: string): AgUiEvent[] => {
    const call = calls.get(toolCallId)
    if (!call?.isOpen) return []
    call.isOpen = false
    return [{ type: 'TOOL_CALL_END', toolCallId: named(toolCallId) }]
  }
  const complete = (chunk: Of<'tool-input-available' | 'tool-input-error'>): AgUiEvent[] => {
    const { toolCallId, input, providerMetadata } = chunk
    const begun = begin(chunk)
    const said = calls.get(toolCallId)!.hasArguments ? [] : grow(toolCallId, argumentsOf(input))
    const encrypted = begun.length > 0 ? [] : encryptedOf('tool-call', named(toolCallId), providerMetadata)
    return [...begun, ...said, ...end(toolCallId), ...encrypted]
  }
  const settle = (
    chunk: Of<'tool-input-error' | 'tool-output-available' | 'tool-output-error' | 'tool-output-denied'>,
  ): AgUiEvent[] => {
    const { toolCallId } = chunk
    const [call, ended] = [calls.get(toolCallId), end(toolCallId)]
    if (!call || call.hasResult) return ended
    Object.assign(call, { hasResult: true, preliminary: undefined })
    const described = 'providerMetadata' in chunk ? chunk.providerMetadata : undefined
    const messageId = idOfResult(reply, toolCallId)
    const { content } = resultOf(STATES[chunk.type], chunk)!
    const result = {
      type: 'TOOL_CALL_RESULT',
      messageId,
      toolCallId: named(toolCallId),
      role: 'tool',
      content,
    }
    return [...ended, ...encryptedOf('tool-call', named(toolCallId), described), result]
  }
  const take = (chunk: Of<'tool-output-available'>): AgUiEvent[] => {
    const call = calls.get(chunk.toolCallId)
    if (!chunk.preliminary || !call) return settle(chunk)
    call.preliminary = chunk
    return end(chunk.toolCallId)
  }
  const tell = (chunk: ToolChunk): AgUiEvent[] => {
    switch (chunk.type) {
      case 'tool-input-start':
        return begin(chunk)
      case 'tool-input-delta':
        return grow(chunk.toolCallId, chunk.inputTextDelta)
      case 'tool-input-available':
        return complete(chunk)
      case 'tool-input-error':
        return [...complete(chunk), ...settle(chunk)]
      case 'tool-output-available':
        return take(chunk)
      case 'tool-output-error':
      case 'tool-output-denied':
        return settle(chunk)
      case 'tool-approval-request':
      case 'tool-approval-response':
        return []
    }
  }
  return {
    write: (chunk) => (isTool(chunk) ? tell(chunk) : []),
    close: () => [...calls].flatMap(([id, { preliminary }]) => (preliminary ? settle(preliminary) : end(id))),
  }
}

type ToolChunk = Extract<Chunk, { readonly type: `tool-${string}` }>

function isTool(chunk: Chunk): chunk is ToolChunk {
  return chunk.type.startsWith('tool-')
}

const STATES = {
  'tool-input-error': 'output-error',
  'tool-output-available': 'output-available',
  'tool-output-error': 'output-error',
  'tool-output-denied': 'output-denied',
} as const

const WHOLE = new Set([
  'file',
  'reasoning-file',
  'source-url',
  'source-document',
  'custom',
  'steering-message',
])

/** What is neither words nor a call. */
function createOthers(ids: MessageIds): ChunksToEvents {
  const known = new Map<string, string>() // data with an id, which may be replaced
  const show = (chunk: Chunk & { readonly id?: string }): AgUiEvent[] => {
    const key =
      chunk.type.startsWith('data-') && chunk.id !== undefined ? JSON.stringify([chunk.type, chunk.id]) : ''
    const messageId = known.get(key) ?? ids.forOther()
    if (key !== '') known.set(key, messageId)
    return [{ type: 'ACTIVITY_SNAPSHOT', messageId, ...activityOf(chunk), replace: true }]
  }
  return {
    write: (chunk) => {
      if (isData(chunk)) {
        if (chunk.transient)
          return [{ type: 'CUSTOM', name: chunk.type.slice('data-'.length), value: chunk.data ?? null }]
        if (chunk.type === STATE.type && chunk.id === STATE.id)
          return [{ type: 'STATE_SNAPSHOT', snapshot: chunk.data ?? null }]
        return isUnseen(chunk) ? [] : show(chunk)
      }
      return WHOLE.has(chunk.type) ? show(chunk) : []
    },
    close: () => [],
  }
}

function isData(chunk: Chunk): chunk is Of<`data-${string}`> {
  return chunk.type.startsWith('data-')
}

function encryptedOf(subtype: string, entityId: string, described: unknown): AgUiEvent[] {
  const encrypted = encryptedIn(described)
  return encrypted ? [{ type: 'REASONING_ENCRYPTED_VALUE', subtype, entityId, ...encrypted }] : []
}
