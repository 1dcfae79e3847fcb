// Validates what an agent sends. Extra fields of a known chunk are kept and passed on. A chunk of an unknown type is rejected,
// because every reader would have to know how it changes the message.
import { ChunkError, FINISH_REASONS, type Chunk, type FinishReason } from './chunk.ts'
import { isFields, jsonTextFault } from './json.ts'

const CHECKS = {
  text: (value: unknown) => typeof value === 'string',
  flag: (value: unknown) => typeof value === 'boolean',
  list: (value: unknown) => Array.isArray(value),
  'texts and files': (value: unknown) => Array.isArray(value) && value.every(isTextOrFile),
  fields: isFields,
  'fields or null': (value: unknown) => value === null || isFields(value),
  reason: (value: unknown) => FINISH_REASONS.includes(value as FinishReason),
  'json or text': (value: unknown) => value === 'json' || value === 'text',
} as const

function isTextOrFile(part: unknown): boolean {
  if (!isFields(part)) return false
  const { type, text, mediaType, url } = part
  if (type === 'text') return CHECKS.text(text)
  return type === 'file' && CHECKS.text(mediaType) && CHECKS.text(url)
}

const DESCRIBED = { 'providerMetadata?': 'fields' } as const
const TOOL = {
  ...DESCRIBED,
  'providerExecuted?': 'flag',
  'dynamic?': 'flag',
  'toolMetadata?': 'fields',
} as const
const TOOL_INPUT = { toolCallId: 'text', toolName: 'text', 'title?': 'text', ...TOOL } as const
const FILE = { url: 'text', mediaType: 'text', ...DESCRIBED } as const

/** The fields of each type and their checks. A field with `?` may be missing. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, keyof typeof CHECKS>>>> = {
  start: { 'messageId?': 'text', 'messageMetadata?': 'fields or null' },
  finish: { 'finishReason?': 'reason', 'messageMetadata?': 'fields or null' },
  'message-metadata': { 'messageMetadata?': 'fields or null' },
  abort: { 'reason?': 'text' },
  error: { errorText: 'text' },
  'start-step': {},
  'finish-step': {},
  'reset-step': {},
  'text-start': { id: 'text', ...DESCRIBED },
  'text-delta': { id: 'text', delta: 'text', ...DESCRIBED },
  'text-end': { id: 'text', 'citations?': 'list', ...DESCRIBED },
  'reasoning-start': { id: 'text', ...DESCRIBED },
  'reasoning-delta': { id: 'text', delta: 'text', ...DESCRIBED },
  'reasoning-end': { id: 'text', ...DESCRIBED },
  'tool-input-start': { ...TOOL_INPUT, 'inputEncoding?': 'json or text' },
  'tool-input-delta': { toolCallId: 'text', inputTextDelta: 'text' },
  'tool-input-available': TOOL_INPUT,
  'tool-input-error': { ...TOOL_INPUT, errorText: 'text' },
  'tool-approval-request': {
    approvalId: 'text',
    toolCallId: 'text',
    'reason?': 'text',
    'isAutomatic?': 'flag',
    'signature?': 'text',
  },
  'tool-approval-response': {
    approvalId: 'text',
    approved: 'flag',
    'reason?': 'text',
    'providerExecuted?': 'flag',
    ...DESCRIBED,
  },
  'tool-output-available': { toolCallId: 'text', 'preliminary?': 'flag', ...TOOL },
  'tool-output-error': { toolCallId: 'text', errorText: 'text', ...TOOL },
  'tool-output-denied': { toolCallId: 'text' },
  'source-url': { sourceId: 'text', url: 'text', 'title?': 'text', ...DESCRIBED },
  'source-document': {
    sourceId: 'text',
    mediaType: 'text',
    title: 'text',
    'filename?': 'text',
    ...DESCRIBED,
  },
  file: FILE,
  'reasoning-file': FILE,
  custom: { kind: 'text', ...DESCRIBED },
  'steering-message': { id: 'text', parts: 'texts and files' },
}
const DATA_FIELDS = { 'id?': 'text', 'transient?': 'flag' } as const

/** Returns the value itself if it is a chunk; throws a ChunkError otherwise. */
export function chunkOf(value: unknown): Chunk {
  if (!isFields(value)) throw new ChunkError('A chunk is a JSON object')
  const { type } = value
  if (typeof type !== 'string') throw new ChunkError('A chunk has a type')
  const fields = type.startsWith('data-')
    ? DATA_FIELDS
    : Object.hasOwn(FIELDS, type)
      ? FIELDS[type]!
      : undefined
  if (!fields) throw new ChunkError(`Chunks of the type ${type.slice(0, 64)} are not known`)
  for (const [field, check] of Object.entries(fields)) {
    const name = field.replace('?', '')
    if (value[name] === undefined ? name !== field : CHECKS[check](value[name])) continue
    throw new ChunkError(`${type}: ${name} is not what it should be (${check})`)
  }
  return value as unknown as Chunk
}

/** Parses text into a chunk. */
export function chunkOfText(text: string): Chunk {
  const fault = jsonTextFault(text)
  if (fault !== undefined) throw new ChunkError(`A chunk is ${fault}`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new ChunkError('A chunk is not JSON', { cause })
  }
  return chunkOf(value)
}
