// The AG-UI events that an agent may send, and the fields that we read of them. A wrong value in a field that the protocol describes is
// rejected, as its specification demands. Events and fields that we do not know are ignored, because a later release may add them. An
// optional field may be null: older producers write it so.
import { ChunkError, isFields } from '@fleetline/protocol'

export type AgUiEvent = { readonly type: string; readonly [field: string]: unknown }

const CHECKS = {
  text: (value: unknown) => typeof value === 'string',
  flag: (value: unknown) => typeof value === 'boolean',
  list: (value: unknown) => Array.isArray(value),
  fields: isFields,
  value: (value: unknown) => value !== undefined,
  'text or parts': (value: unknown) => typeof value === 'string' || isListOfFields(value),
  'list of objects': isListOfFields,
  'role of a text message': (value: unknown) => TEXT_ROLES.includes(value as string),
} as const

/** What a check asks for, in an error. */
const WORDS: Readonly<Record<keyof typeof CHECKS, string>> = {
  text: 'a string',
  flag: 'true or false',
  list: 'an array',
  fields: 'an object',
  value: 'any JSON value',
  'text or parts': 'a string or an array of parts',
  'list of objects': 'an array of objects',
  'role of a text message': 'developer, system, assistant or user',
}

const TEXT_ROLES = ['developer', 'system', 'assistant', 'user']

const MESSAGE = { messageId: 'text' } as const
const CALL = { toolCallId: 'text' } as const
const DELTA = { delta: 'text' } as const
const ROLE = { 'role?': 'role of a text message' } as const

/** A field with `?` may be missing. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, keyof typeof CHECKS>>>> = {
  RUN_STARTED: { threadId: 'text', runId: 'text' },
  RUN_FINISHED: { threadId: 'text', runId: 'text', 'outcome?': 'fields', 'usage?': 'list of objects' },
  RUN_ERROR: { message: 'text', 'code?': 'text', 'usage?': 'list of objects' },
  TEXT_MESSAGE_START: { ...MESSAGE, ...ROLE },
  TEXT_MESSAGE_CONTENT: { ...MESSAGE, ...DELTA },
  TEXT_MESSAGE_END: MESSAGE,
  TEXT_MESSAGE_CHUNK: { 'messageId?': 'text', ...ROLE, 'delta?': 'text' },
  TOOL_CALL_START: { ...CALL, toolCallName: 'text' },
  TOOL_CALL_ARGS: { ...CALL, ...DELTA },
  TOOL_CALL_END: CALL,
  TOOL_CALL_CHUNK: { 'toolCallId?': 'text', 'toolCallName?': 'text', 'delta?': 'text' },
  TOOL_CALL_RESULT: { ...MESSAGE, ...CALL, content: 'text or parts' },
  REASONING_MESSAGE_START: MESSAGE,
  REASONING_MESSAGE_CONTENT: { ...MESSAGE, ...DELTA },
  REASONING_MESSAGE_END: MESSAGE,
  REASONING_MESSAGE_CHUNK: { 'messageId?': 'text', 'delta?': 'text' },
  REASONING_ENCRYPTED_VALUE: { subtype: 'text', entityId: 'text', encryptedValue: 'text' },
  STATE_SNAPSHOT: { snapshot: 'value' },
  STATE_DELTA: { delta: 'list of objects' },
  ACTIVITY_SNAPSHOT: { ...MESSAGE, activityType: 'text', content: 'fields', 'replace?': 'flag' },
  ACTIVITY_DELTA: { ...MESSAGE, activityType: 'text', patch: 'list of objects' },
  MESSAGES_SNAPSHOT: { messages: 'list of objects' },
  CUSTOM: { name: 'text', value: 'value' },
}

/** Names that releases before 1.0 used. Their events have no ids. */
const FORMER: Readonly<Record<string, string>> = {
  THINKING_TEXT_MESSAGE_START: 'REASONING_MESSAGE_START',
  THINKING_TEXT_MESSAGE_CONTENT: 'REASONING_MESSAGE_CONTENT',
  THINKING_TEXT_MESSAGE_END: 'REASONING_MESSAGE_END',
}

/** Returns the event without fields that are null. Undefined: its type is not known, or says nothing that we keep. */
export function parseEvent(value: unknown): AgUiEvent | undefined {
  const given = typeOfEvent(value)
  const former = Object.hasOwn(FORMER, given) ? FORMER[given] : undefined
  const type = former ?? given
  const fields = Object.hasOwn(FIELDS, type) ? FIELDS[type]! : undefined
  if (!fields) return undefined
  const event = former
    ? { messageId: 'thinking', ...(value as object), type }
    : { ...(value as object), type }
  return Object.assign(event, checkFields(type, event, fields))
}

export function typeOfEvent(value: unknown): string {
  if (!isFields(value)) throw new ChunkError('An event must be a JSON object')
  const { type } = value
  if (typeof type !== 'string' || type === '') throw new ChunkError('An event lacks its type')
  return type
}

function checkFields(
  type: string,
  event: Readonly<Record<string, unknown>>,
  fields: Readonly<Record<string, keyof typeof CHECKS>>,
): Record<string, unknown> {
  const read: Record<string, unknown> = {}
  for (const [field, check] of Object.entries(fields)) {
    const name = field.replace('?', '')
    const isOptional = name !== field
    const value = isOptional ? (event[name] ?? undefined) : event[name]
    read[name] = value
    if (value === undefined ? isOptional : CHECKS[check](value)) continue
    throw new ChunkError(`${type}: ${name} must be ${WORDS[check]}, but it ${faultOf(value, check)}`)
  }
  return read
}

/** What is wrong with a value, in an error. */
function faultOf(value: unknown, check: keyof typeof CHECKS): string {
  if (value === undefined) return 'is missing'
  if (typeof value === 'string') return `is ${JSON.stringify(shortenId(value))}`
  if (value === null) return 'is null'
  if (!Array.isArray(value)) return isFields(value) ? 'is an object' : `is a ${typeof value}`
  const isListAllowed = check === 'list of objects' || check === 'text or parts'
  return isListAllowed ? 'contains an entry that is not an object' : 'is an array'
}

/** As much of an id as an error quotes. */
export function shortenId(id: string): string {
  return id.slice(0, 64)
}

function isListOfFields(value: unknown): boolean {
  return Array.isArray(value) && value.every(isFields)
}
