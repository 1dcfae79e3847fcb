// Calls an agent and reads its stream from the first chunk to the last. It trusts nothing: every value is validated, and sizes
// and silences have limits. An agent that continues after its signal was aborted is abandoned at once.
//   the agent's stream                                     result
//   sent `finish`                                          the message that its chunks make, or nothing if that is empty
//   sent `error` as `fleetline:{…}`                        as agent/own-error.ts says
//   ended without `finish`, sent `error` or `abort`,       a fault that is retried
//   finished with `error` or `interrupted`, was silent
//   for too long, or took too long
//   had something that is no chunk, a chunk in the wrong   a final fault: `agent_protocol`, `too_large`
//   place, or more than its limits
//   threw                                                  what it threw, unchanged
// After `finish`, `error` or `abort` the agent has some time to end by itself. What it does then changes nothing.
import {
  ChunkError,
  chunkOfText,
  hasContent,
  MESSAGE_LIMITS,
  messageFault,
  type Assembler,
  type Chunk,
  type Message,
} from '@fleetline/protocol'
import { ChunkText, LIFE, type AgentAnswer, type AgentCall, type AgentDefinition } from '../agent/agent.ts'
import { AgentFault } from '../agent/fault.ts'
import { faultOfText } from '../agent/own-error.ts'
import { yieldToEventLoop, within, type Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'

type LimitName =
  | 'firstMs'
  | 'silenceMs'
  | 'wholeMs'
  | 'tailMs'
  | 'chunks'
  | 'chunkBytes'
  | 'bytes'
  | 'parts'
  | 'metadataBytes'
  | 'messageBytes'
export type CallLimits = Readonly<Record<LimitName, number>>
export const CALL_LIMITS: CallLimits = {
  firstMs: 30_000,
  silenceMs: 60_000,
  wholeMs: 900_000,
  /** After the chunk that ends the reply: the agent may have to clean up, but nobody waits for it forever. */
  tailMs: 10_000,
  chunks: 100_000,
  /** Of one chunk: this much is written, read and sent at once. */
  chunkBytes: 1024 * 1024,
  bytes: 64 * 1024 * 1024,
  parts: 2_000,
  /** Of all metadata that is sent, including values that are replaced later. */
  metadataBytes: 16_384,
  messageBytes: MESSAGE_LIMITS.replyBytes,
}

const LATE = new AgentFault('timeout', 'The agent took too long', { isFinal: false })
const SILENT = new AgentFault('timeout', 'The agent was silent for too long', { isFinal: false, status: 408 })

const CHUNKS_PER_PAUSE = 64 // chunks and signs of life between two pauses: an agent that has all chunks ready must not block the pod

type Deps = {
  readonly clock: Clock
  readonly limits: CallLimits
  /** Assembles the reply. It keeps what the agent said, even if the call fails. */
  readonly assembler: Assembler
  /** Gets each chunk of the reply in order, as it comes, except `error` and `abort`: another attempt may follow those. The next
   *  chunk is read when this has resolved. */
  readonly onChunk: (chunk: Chunk) => Promise<void> | undefined
  /** Called when the agent is called. Its promise resolves when the agent has ended its stream; an abandoned agent may do so
   *  later. */
  readonly onCalled?: (ended: Promise<void>) => void
  /** Called for each chunk after the one that ended the reply. */
  readonly onIgnored?: () => void
}

/** Rejects with the signal's reason when it is aborted. The signal that the agent gets is aborted when this function ends. */
export async function callAgent(
  deps: Deps,
  { answer }: AgentDefinition,
  call: AgentCall,
): Promise<Message | undefined> {
  const { clock, limits, assembler, onCalled } = deps
  call.signal.throwIfAborted()
  const [over, ended] = [new AbortController(), Promise.withResolvers<void>()]
  const signal = AbortSignal.any([call.signal, over.signal])
  const around = { ...deps, signal, messageId: call.turn.messageId } // copied before the agent can change the call
  const begun = (async () => iteratorOf(await answer({ ...call, signal })))()
  onCalled?.(ended.promise)
  const reading = async () => {
    const stream = await within(clock, limits.firstMs, begun, SILENT, signal)
    return { stream, ...(await read(stream, around)) }
  }
  let isEnded = false
  try {
    const { stream, isRead, end } = await within(clock, limits.wholeMs, reading(), LATE, call.signal)
    isEnded = isRead || (await drain(stream, around))
    return replyOf(assembler.message(), end, limits)
  } catch (error) {
    throw error instanceof ChunkError
      ? new AgentFault('agent_protocol', error.message, {
          isFinal: true,
          quotesAgent: true,
          remedy: error.remedy,
        })
      : error
  } finally {
    if (isEnded) ended.resolve()
    else begun.then(leave).then(ended.resolve, ended.resolve) // also if there is no stream, or ending it fails
    over.abort(new Error('the call has ended'))
  }
}

function iteratorOf(stream: Partial<AgentAnswer> | undefined): AsyncIterator<unknown> {
  const iterator = stream?.[Symbol.asyncIterator]?.()
  if (iterator) return iterator
  throw new ChunkError('The agent did not answer with a stream of chunks')
}

/** Asks the stream to end. The agent may ignore that. */
async function leave(stream: AsyncIterator<unknown>): Promise<void> {
  await stream.return?.()
}

type Reading = Deps & { readonly signal: AbortSignal; readonly messageId: string }

type End = Extract<Chunk, { readonly type: 'finish' | 'abort' | 'error' }>

/** Reads up to the chunk that ends the reply. `isRead`: the stream itself has ended. */
async function read(
  stream: AsyncIterator<unknown>,
  { clock, limits, assembler, onChunk, signal, messageId }: Reading,
): Promise<{ readonly isRead: boolean; readonly end?: End }> {
  const measure = createMeasure(limits, assembler)
  let steps = 0
  for (let waitMs = limits.firstMs; ; waitMs = limits.silenceMs) {
    signal.throwIfAborted() // a step that is ready at once would win against the signal
    const step = await within(clock, waitMs, next(stream), SILENT, signal)
    if (step?.done) return { isRead: true }
    steps += 1
    if (steps % CHUNKS_PER_PAUSE === 0) await yieldToEventLoop()
    if (step?.value === LIFE) continue
    const text = step?.value instanceof ChunkText ? step.value.text : jsonOf(step?.value)
    measure.count(text)
    const chunk = ours(chunkOfText(text), messageId)
    measure.look(chunk)
    assembler.push(chunk)
    measure.weigh()
    const room = chunk.type === 'error' || chunk.type === 'abort' ? undefined : onChunk(chunk)
    const isOver = isEnd(chunk)
    if (!isOver) await room
    await crashPoint('turn.chunk')
    if (isOver) return { isRead: false, end: chunk }
  }
}

function isEnd(chunk: Chunk): chunk is End {
  return chunk.type === 'finish' || chunk.type === 'abort' || chunk.type === 'error'
}

/**
 * Nothing after the end of the reply counts: not what the agent sends, not how its stream ends, and not that the call is
 * aborted meanwhile, because whether the reply may still be stored is decided elsewhere. Returns whether the stream ended by
 * itself.
 */
async function drain(
  stream: AsyncIterator<unknown>,
  { clock, limits, signal, onIgnored }: Reading,
): Promise<boolean> {
  const rest = async () => {
    for (let left = limits.chunks; left > 0 && !signal.aborted; left -= 1) {
      const step = await next(stream)
      if (step?.done) return true
      if (step?.value !== LIFE) onIgnored?.()
      if (left % CHUNKS_PER_PAUSE === 0) await yieldToEventLoop()
    }
    return false
  }
  return within(clock, limits.tailMs, rest(), SILENT, signal).catch(() => false)
}

async function next(stream: AsyncIterator<unknown>): Promise<Partial<IteratorResult<unknown>> | undefined> {
  return await stream.next()
}

/** Throws when the stream exceeds a limit of replies. */
function createMeasure(limits: CallLimits, assembler: Assembler) {
  const size = { chunks: 0, chunkBytes: 0, bytes: 0, metadataBytes: 0, parts: 0, messageBytes: 0 }
  let unweighed = 0
  const check = () => {
    const [over] = (Object.keys(size) as (keyof typeof size)[]).filter((name) => size[name] > limits[name])
    if (over)
      throw new AgentFault('too_large', `A reply has at most ${limits[over]} ${over}`, { isFinal: true })
  }
  return {
    /** Counts a chunk before it is parsed. */
    count: (text: string): void => {
      size.chunks += 1
      size.chunkBytes = Buffer.byteLength(text)
      size.bytes += size.chunkBytes
      unweighed += size.chunkBytes
      check()
    },
    look: (chunk: Chunk) => {
      if ('messageMetadata' in chunk)
        size.metadataBytes += Buffer.byteLength(JSON.stringify(chunk.messageMetadata) ?? '')
      check()
    },
    /** Measures the message so far. Its bytes are counted only when they may exceed the limit. */
    weigh: () => {
      size.parts = assembler.length()
      if (unweighed > limits.messageBytes) {
        size.messageBytes = bytesOf(assembler.message())
        unweighed = 0
      }
      check()
    },
  }
}

/** Serializes the chunk as if it came over the network: what is not JSON is lost here, so readers see exactly what is
 *  stored. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch {
    throw new ChunkError('A chunk cannot be written as JSON')
  }
}

/** A reply has the id of its turn, whatever id the agent gives it. */
function ours(chunk: Chunk, messageId: string): Chunk {
  return chunk.type === 'start' ? { ...chunk, messageId } : chunk
}

function replyOf(message: Message, end: End | undefined, limits: CallLimits): Message | undefined {
  if (!end)
    throw new AgentFault('incomplete', 'The stream of the agent ended before its finish', { isFinal: false })
  if (end.type === 'error') throw faultOfText(end.errorText)
  if (end.type === 'abort')
    throw new AgentFault('agent_error', 'The agent gave up by itself', { isFinal: false })
  const { finishReason } = end
  if (finishReason === 'error' || finishReason === 'interrupted')
    throw new AgentFault('agent_error', `The agent finished with ${finishReason}`, { isFinal: false })
  const fault = messageFault(message)
  if (fault !== undefined)
    throw new AgentFault('agent_protocol', `The reply cannot be stored: ${fault}`, {
      isFinal: true,
      quotesAgent: true,
    })
  if (bytesOf(message) > limits.messageBytes)
    throw new AgentFault('too_large', `The reply is over ${limits.messageBytes} bytes of JSON`, {
      isFinal: true,
    })
  return hasContent(message) ? message : undefined
}

function bytesOf(message: Message): number {
  return Buffer.byteLength(JSON.stringify(message))
}
