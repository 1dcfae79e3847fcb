// Turns the answer of an agent behind a URL into chunks.
//   status   content type                                    chunks
//   200      text/event-stream, application/x-ndjson,        the chunks that it sends, as they come
//            application/jsonl
//   200      application/json                                the chunks of one message: `{"text": …}`, or a message of the
//                                                            AI SDK with the role assistant
//   204                                                      the chunks of an empty reply
// The events of AG-UI come as text/event-stream, and this file takes them out of it.
// Bytes are counted before they are kept. Bytes that complete no chunk count as a sign of life.
import {
  ChunkError,
  condense,
  createChunkDecoder,
  jsonTextFault,
  MESSAGE_LIMITS,
  type Message,
} from '@fleetline/protocol'
import type { Dispatcher } from 'undici'
import { createBytes } from '../lib/bytes.ts'
import { ChunkText, LIFE, type AgentAnswer } from './agent.ts'
import { AgentFault } from './fault.ts'

export type HttpAnswer = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'> & {
  readonly body: AsyncIterable<Uint8Array>
}

const STREAMS = ['text/event-stream', 'application/x-ndjson', 'application/jsonl']
export const TYPES: readonly string[] = [...STREAMS, 'application/json']
export const AG_UI_TYPES: readonly string[] = ['text/event-stream']

export const PLAIN: readonly string[] = ['identity', 'none'] // the AI SDK's documentation recommends `none` to keep proxies from compressing

const STREAM_BYTES = 64 * 1024 * 1024 // includes everything around the chunks
const JSON_BYTES = 2 * MESSAGE_LIMITS.replyBytes // includes everything that is not kept
const NOTHING = [{ type: 'start' }, { type: 'finish' }]

/** Expects an answer with the status 200 or 204. */
export function chunksOf(answer: HttpAnswer): AgentAnswer {
  if (answer.statusCode === 204) return nothing()
  return STREAMS.includes(typeIn(answer, TYPES)) ? streamed(answer.body) : whole(answer.body)
}

/** The texts of what the agent streams. Expects an answer with the status 200. */
export function textsOf(answer: HttpAnswer, types: readonly string[]): AgentAnswer {
  if (answer.statusCode === 204)
    throw broken(
      'The agent answered with status 204: AG-UI needs a run with its events, even if it says nothing',
    )
  typeIn(answer, types)
  return streamed(answer.body)
}

/** One of these types. */
function typeIn({ headers }: HttpAnswer, types: readonly string[]): string {
  const type = typeOf(headers)
  if (!types.includes(type))
    throw broken(`The agent answered with the content type ${shown(type)}: send ${types.join(', ')}`, true)
  if (!PLAIN.includes(encodingOf(headers)))
    throw broken('The agent answered with a content encoding: send the body uncompressed')
  return type
}

export function encodingOf(headers: HttpAnswer['headers']): string {
  return String(headers['content-encoding'] ?? 'identity').toLowerCase()
}

export function typeOf(headers: HttpAnswer['headers']): string {
  return String(headers['content-type'] ?? 'none')
    .split(';')[0]!
    .trim()
    .toLowerCase()
}

/** The text of a summary: `{"summary": …}`, or a message. */
export async function readSummary({ statusCode, headers, body }: HttpAnswer): Promise<string> {
  const type = typeOf(headers)
  if (statusCode !== 200 || type !== 'application/json')
    throw broken(
      `The agent answered a request for a summary with status ${statusCode} and the content type ${shown(type)}: answer with status 200 and application/json, for example {"summary": "…"}`,
      true,
    )
  const bytes = createBytes()
  for await (const piece of counted(body, JSON_BYTES)) bytes.add(piece)
  const { summary } = fieldsOf(bytes.all())
  if (typeof summary === 'string') return summary
  const { parts } = messageOf(bytes.all())
  return parts
    .map(({ type: kind, text }) => (kind === 'text' && typeof text === 'string' ? text : ''))
    .join('')
}

async function* nothing(): AgentAnswer {
  yield* NOTHING
}

async function* streamed(body: AsyncIterable<Uint8Array>): AgentAnswer {
  const decoder = createChunkDecoder()
  for await (const piece of counted(body, STREAM_BYTES)) {
    const texts = decoder.push(piece)
    if (texts.length === 0) yield LIFE
    for (const text of texts) yield new ChunkText(text)
  }
  for (const text of decoder.end()) yield new ChunkText(text)
}

async function* whole(body: AsyncIterable<Uint8Array>): AgentAnswer {
  const bytes = createBytes()
  for await (const piece of counted(body, JSON_BYTES)) {
    bytes.add(piece)
    yield LIFE
  }
  yield* condense(messageOf(bytes.all()))
  yield { type: 'finish' }
}

function messageOf(bytes: Uint8Array): Pick<Message, 'parts' | 'metadata'> {
  const { text, role, parts, metadata } = fieldsOf(bytes)
  if (typeof text === 'string') return { parts: [{ type: 'text', text }] }
  if (role !== 'assistant' || !Array.isArray(parts) || !parts.every(isPart))
    throw new ChunkError(
      'The answer is neither {"text": …} nor a message of the role assistant with its parts',
    )
  return { parts, ...(metadata !== undefined && { metadata: metadata as Message['metadata'] & object }) }
}

function isPart(value: unknown): value is Message['parts'][number] {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}

function fieldsOf(bytes: Uint8Array): { readonly [field: string]: unknown } {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new ChunkError('The answer is not UTF-8')
  }
  const fault = jsonTextFault(text)
  if (fault !== undefined) throw new ChunkError(`The answer is ${fault}`)
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    throw new ChunkError('The answer is not JSON')
  }
}

async function* counted(body: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    if (bytes > most)
      throw new AgentFault('too_large', `An answer has at most ${most} bytes`, { isFinal: true })
    yield piece
  }
}

/** As much of a header as may stand in a message. */
function shown(text: string): string {
  return text.replaceAll(/[^\w/.+-]/g, '?').slice(0, 60)
}

function broken(message: string, quotesAgent = false): AgentFault {
  return new AgentFault('agent_protocol', message, { isFinal: true, quotesAgent })
}
