// One chunk of every type of the newest AI SDK, with every field that the type has: the compiler misses none. They are in an order in which an
// agent may send them, but for `error` and `abort`, which end a stream.
import type { UIMessageChunk } from 'ai'
import type { Chunk } from '@fleetline/protocol'

type Named = Exclude<UIMessageChunk['type'], `data-${string}`>
type Every = { readonly [Type in Named]: Required<Extract<UIMessageChunk, { readonly type: Type }>> }

const DESCRIBED = { providerMetadata: { provider: { n: 1 } } }
const CALL = {
  toolCallId: 'call',
  providerExecuted: true,
  dynamic: true,
  toolMetadata: { icon: 'sun' },
  ...DESCRIBED,
}
const NAMED = { ...CALL, toolName: 'weather', title: 'Weather' }
const URL_OF = { url: 'https://example.com/', mediaType: 'text/plain', ...DESCRIBED }

const EVERY: Every = {
  start: { type: 'start', messageId: 'm', messageMetadata: { model: 'small' } },
  'start-step': { type: 'start-step' },
  'reset-step': { type: 'reset-step' },
  'text-start': { type: 'text-start', id: '1', ...DESCRIBED },
  'text-delta': { type: 'text-delta', id: '1', delta: 'word', ...DESCRIBED },
  'text-end': { type: 'text-end', id: '1', citations: [], ...DESCRIBED },
  'reasoning-start': { type: 'reasoning-start', id: '2', ...DESCRIBED },
  'reasoning-delta': { type: 'reasoning-delta', id: '2', delta: 'thought', ...DESCRIBED },
  'reasoning-end': { type: 'reasoning-end', id: '2', ...DESCRIBED },
  'tool-input-start': { type: 'tool-input-start', ...NAMED, inputEncoding: 'json' },
  'tool-input-delta': { type: 'tool-input-delta', toolCallId: 'call', inputTextDelta: '{"city":"Bern"}' },
  'tool-input-available': { type: 'tool-input-available', ...NAMED, input: { city: 'Bern' } },
  'tool-approval-request': {
    type: 'tool-approval-request',
    approvalId: 'approval',
    toolCallId: 'call',
    approvalDescriptor: { kind: 'once' },
    inputSchemaInput: { city: 'Bern' },
    reason: 'It costs money.',
    isAutomatic: false,
    signature: 'signed',
  },
  'tool-approval-response': {
    type: 'tool-approval-response',
    approvalId: 'approval',
    approved: true,
    reason: 'Go.',
    providerExecuted: true,
    ...DESCRIBED,
  },
  'tool-output-available': {
    type: 'tool-output-available',
    ...CALL,
    output: { degrees: 21 },
    preliminary: true,
  },
  'tool-output-error': { type: 'tool-output-error', ...CALL, errorText: 'It rains.' },
  'tool-output-denied': { type: 'tool-output-denied', toolCallId: 'call' },
  'tool-input-error': {
    type: 'tool-input-error',
    ...NAMED,
    toolCallId: 'other',
    input: 'x',
    errorText: 'Not JSON.',
  },
  'source-url': {
    type: 'source-url',
    sourceId: '1',
    url: 'https://example.com/',
    title: 'Page',
    ...DESCRIBED,
  },
  'source-document': {
    type: 'source-document',
    sourceId: '2',
    mediaType: 'text/plain',
    title: 'Note',
    filename: 'note.txt',
    ...DESCRIBED,
  },
  file: { type: 'file', ...URL_OF },
  'reasoning-file': { type: 'reasoning-file', ...URL_OF },
  custom: { type: 'custom', kind: 'vendor.kind', ...DESCRIBED },
  'steering-message': { type: 'steering-message', id: 's', parts: [{ type: 'text', text: 'go left' }] },
  'message-metadata': { type: 'message-metadata', messageMetadata: { tokens: 3 } },
  'finish-step': { type: 'finish-step' },
  finish: { type: 'finish', finishReason: 'stop', messageMetadata: { done: true } },
  error: { type: 'error', errorText: 'It failed.' },
  abort: { type: 'abort', reason: 'stopped' },
}
const DATA: Chunk = { type: 'data-weather', id: '1', data: { degrees: 21 }, transient: false }

export const EVERY_CHUNK: readonly Chunk[] = [...Object.values(EVERY), DATA].map((chunk) => chunk as Chunk)
