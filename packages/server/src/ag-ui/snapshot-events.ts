// The reply in a snapshot of the conversation: for agents that send their messages whole. It is what follows the last message of a user.
import { isFields } from '@fleetline/protocol'
import { parseEvent, type AgUiEvent } from './parse-event.ts'

/** Turns new messages into the events that would have streamed them, and returns their ids. */
export function eventsOfSnapshot(
  messages: unknown,
  isKnown: (id: string) => boolean,
): { readonly events: readonly AgUiEvent[]; readonly ids: readonly string[] } {
  const all = Array.isArray(messages) ? messages.filter(isFields) : []
  const asked = all.findLastIndex(({ role }) => role === 'user')
  const fresh = all.slice(asked + 1).filter(({ id }) => typeof id === 'string' && !isKnown(id))
  return {
    events: fresh.flatMap(eventsOf).flatMap((event) => parseEvent(event) ?? []),
    ids: fresh.map(({ id }) => String(id)),
  }
}

type Fields = { readonly [field: string]: unknown }

function eventsOf(message: Fields): Fields[] {
  const { role, id: messageId, content, encryptedValue } = message
  const encrypted =
    typeof encryptedValue === 'string'
      ? [{ type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', entityId: messageId, encryptedValue }]
      : []
  switch (role) {
    case 'assistant':
      return [...wordsOf('TEXT_MESSAGE', messageId, content), ...encrypted, ...callsOf(message)]
    case 'reasoning':
      return [...wordsOf('REASONING_MESSAGE', messageId, content), ...encrypted]
    case 'tool':
      return [{ ...message, type: 'TOOL_CALL_RESULT', messageId }]
    case 'activity':
      return [{ ...message, type: 'ACTIVITY_SNAPSHOT', messageId }]
    default:
      return []
  }
}

function wordsOf(prefix: string, messageId: unknown, delta: unknown): Fields[] {
  if (delta == null || delta === '') return []
  return [
    { type: `${prefix}_START`, messageId },
    { type: `${prefix}_CONTENT`, messageId, delta },
    { type: `${prefix}_END`, messageId },
  ]
}

function callsOf({ toolCalls }: Fields): Fields[] {
  const calls = Array.isArray(toolCalls) ? toolCalls.filter(isFields) : []
  return calls.flatMap(({ id: toolCallId, function: called, encryptedValue }) => {
    const { name: toolCallName, arguments: delta } = isFields(called) ? called : {}
    const encrypted = {
      type: 'REASONING_ENCRYPTED_VALUE',
      subtype: 'tool-call',
      entityId: toolCallId,
      encryptedValue,
    }
    return [
      { type: 'TOOL_CALL_START', toolCallId, toolCallName },
      { type: 'TOOL_CALL_ARGS', toolCallId, delta },
      ...(typeof encryptedValue === 'string' ? [encrypted] : []),
      { type: 'TOOL_CALL_END', toolCallId },
    ]
  })
}
