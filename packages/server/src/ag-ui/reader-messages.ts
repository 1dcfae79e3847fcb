// The messages that a reader of AG-UI events has of one reply, as AG-UI's own client puts them together.
import { isDeepStrictEqual } from 'node:util'
import type { AgUiEvent } from './parse-event.ts'
import type { AgUiMessage } from './messages.ts'

type Called = {
  readonly id: string
  readonly type: 'function'
  readonly function: { name: string; arguments: string }
  encryptedValue?: unknown
}
type ReaderMessage = {
  readonly id: string
  readonly role: string
  content?: unknown
  toolCalls?: Called[]
  encryptedValue?: unknown
  [field: string]: unknown
}

export type ReaderMessages = {
  readonly take: (event: AgUiEvent) => void
  readonly messages: () => readonly AgUiMessage[]
  readonly areLike: (wanted: readonly AgUiMessage[]) => boolean
}

export function createReaderMessages(): ReaderMessages {
  const messages: ReaderMessage[] = []
  const byId = new Map<string, ReaderMessage>()
  const calls = new Map<string, { readonly call: Called; readonly parent: ReaderMessage }>()
  const add = (message: ReaderMessage, at = messages.length) => {
    messages.splice(at, 0, message)
    byId.set(message.id, message)
    return message
  }
  const addResult = ({ messageId, toolCallId, content }: AgUiEvent) => {
    const parent = calls.get(String(toolCallId))?.parent
    const message = { id: String(messageId), role: 'tool', toolCallId, content }
    if (!parent) return void add(message)
    let at = messages.indexOf(parent) + 1
    while (messages[at]?.role === 'tool') at += 1
    add(message, at)
  }
  const addCall = ({ toolCallId, toolCallName, parentMessageId }: AgUiEvent) => {
    const parent =
      byId.get(String(parentMessageId)) ?? add({ id: String(parentMessageId), role: 'assistant' })
    const call: Called = {
      id: String(toolCallId),
      type: 'function',
      function: { name: String(toolCallName), arguments: '' },
    }
    ;(parent.toolCalls ??= []).push(call)
    calls.set(call.id, { call, parent })
  }
  const show = ({ messageId, activityType, content }: AgUiEvent) => {
    const there = byId.get(String(messageId))
    if (there) Object.assign(there, { activityType, content })
    else add({ id: String(messageId), role: 'activity', activityType, content })
  }
  const encrypt = ({ subtype, entityId, encryptedValue }: AgUiEvent) => {
    const of = subtype === 'tool-call' ? calls.get(String(entityId))?.call : byId.get(String(entityId))
    if (of) of.encryptedValue = encryptedValue
  }
  return {
    take: (event) => {
      const { type, messageId, toolCallId, delta } = event
      switch (type) {
        case 'TEXT_MESSAGE_START':
        case 'REASONING_MESSAGE_START':
          return void add({ id: String(messageId), role: String(event['role']), content: '' })
        case 'TEXT_MESSAGE_CONTENT':
        case 'REASONING_MESSAGE_CONTENT': {
          const message = byId.get(String(messageId))!
          message.content = String(message.content) + String(delta)
          return undefined
        }
        case 'TOOL_CALL_START':
          return addCall(event)
        case 'TOOL_CALL_ARGS':
          calls.get(String(toolCallId))!.call.function.arguments += String(delta)
          return undefined
        case 'TOOL_CALL_RESULT':
          return addResult(event)
        case 'ACTIVITY_SNAPSHOT':
          return show(event)
        case 'REASONING_ENCRYPTED_VALUE':
          return encrypt(event)
        default:
          return undefined
      }
    },
    messages: () => messages,
    areLike: (wanted) => areAlike(messages, wanted),
  }
}

/** Whether two lists have the same messages. The order of results, the spelling of arguments and the ids of reasonings do not count. */
export function areAlike(some: readonly AgUiMessage[], others: readonly AgUiMessage[]): boolean {
  return isDeepStrictEqual(comparable(some), comparable(others))
}

/** Of a result, an event has no `error`. */
function comparable(messages: readonly AgUiMessage[]): unknown {
  const results = messages
    .filter(({ role }) => role === 'tool')
    .map(({ id, content }) => [id, content] as const)
  const others = messages
    .filter(({ role }) => role !== 'tool')
    .map(({ id, ...message }) => ({
      ...message,
      ...(message.role !== 'reasoning' && { id }),
      toolCalls: callsOf({ ...message, id }).map(comparableCall),
    }))
  return JSON.parse(JSON.stringify([results.toSorted(([a], [b]) => (a < b ? -1 : 1)), others])) as unknown
}

function callsOf({ toolCalls }: AgUiMessage): readonly Called[] {
  return Array.isArray(toolCalls) ? (toolCalls as Called[]) : []
}

function comparableCall({ id, function: called, encryptedValue }: Called) {
  return { id, name: called.name, arguments: valueOf(called.arguments), encryptedValue }
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
