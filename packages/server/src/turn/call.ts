// One call of an agent, from the first chunk to the last. Nothing of it is believed: every value is looked at, what it may
// send and how long it may be silent has a limit, and one that goes on after its signal is left behind, at once.
//   the stream                                             answer
//   ended behind `finish`                                  the message that its chunks make, or nothing if that is empty
//   ended without `finish`, said `error` or `abort`,       a fault to try again after
//   finished with `error` or `interrupted`; was silent, or
//   took, too long
//   held what is no chunk, a chunk at a wrong place, or    a fault that stays: `agent_protocol`, `too_large`
//   more than its limits
//   threw                                                  what it threw, as it is
import {
  ChunkError,
  chunkOf,
  createAssembler,
  hasContent,
  MESSAGE_LIMITS,
  messageFault,
  type Chunk,
  type Message,
  type StreamEnd,
} from '@fleetline/protocol'
import { LIFE, type AgentAnswer, type AgentCall, type AgentDefinition } from '../agent/agent.ts'
import { AgentFault } from '../agent/fault.ts'
import { breathe, within, type Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'

type LimitName =
  | 'firstMs'
  | 'silenceMs'
  | 'wholeMs'
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
  chunks: 100_000,
  /** Of one: what is written, read and told at once. */
  chunkBytes: 1024 * 1024,
  bytes: 64 * 1024 * 1024,
  parts: 2_000,
  /** Of all that is sent, also of what replaces what was sent before. */
  metadataBytes: 16_384,
  messageBytes: MESSAGE_LIMITS.replyBytes,
}

const LATE = new AgentFault('timeout', 'The agent took too long', { isFinal: false })
const SILENT = new AgentFault('timeout', 'The agent was silent for too long', { isFinal: false })

const BREATH = 64 // chunks: an agent that has them all at once does not hold up the pod

type Deps = {
  readonly clock: Clock
  readonly limits: CallLimits
  /** Each chunk of the reply, in its order, as it comes; but for those after which another attempt may come. */
  readonly onChunk: (chunk: Chunk) => void
  /** It is called now. Resolves when it has ended its stream, which one that was left behind may do later. */
  readonly onCalled?: (ended: Promise<void>) => void
}

/** Rejects with the signal's reason when that is aborted. The signal that the agent gets is aborted when this ends. */
export async function callAgent(
  { clock, limits, onChunk, onCalled }: Deps,
  { answer }: AgentDefinition,
  call: AgentCall,
): Promise<Message | undefined> {
  const over = new AbortController()
  const signal = AbortSignal.any([call.signal, over.signal])
  const { messageId } = call.turn // before the agent has the call in its hands
  const begin = async () => iteratorOf(await answer({ ...call, signal }))
  const reading = async () => {
    const [begun, ended] = [begin(), Promise.withResolvers<void>()]
    onCalled?.(ended.promise)
    try {
      const stream = await within(clock, limits.firstMs, begun, SILENT, signal)
      const message = await read(stream, { clock, limits, onChunk, signal, messageId })
      ended.resolve()
      return message
    } catch (error) {
      begun.then(leave).then(ended.resolve, ended.resolve) // it has none, or this was its failure
      throw error instanceof ChunkError
        ? new AgentFault('agent_protocol', error.message, { isFinal: true })
        : error
    }
  }
  try {
    call.signal.throwIfAborted()
    return await within(clock, limits.wholeMs, reading(), LATE, call.signal)
  } finally {
    over.abort(new Error('the call has ended'))
  }
}

function iteratorOf(stream: Partial<AgentAnswer> | undefined): AsyncIterator<unknown> {
  const iterator = stream?.[Symbol.asyncIterator]?.()
  if (iterator) return iterator
  throw new ChunkError('The agent did not answer with a stream of chunks')
}

/** It is told; whether it listens is its own affair. */
async function leave(stream: AsyncIterator<unknown>): Promise<void> {
  await stream.return?.()
}

type Reading = Deps & { readonly signal: AbortSignal; readonly messageId: string }

async function read(
  stream: AsyncIterator<unknown>,
  { clock, limits, onChunk, signal, messageId }: Reading,
): Promise<Message | undefined> {
  const assembler = createAssembler(messageId)
  const measure = createMeasure(limits)
  const next = async () => (await stream.next()) as Partial<IteratorResult<unknown>> | undefined
  for (let waitMs = limits.firstMs; ; waitMs = limits.silenceMs) {
    const step = await within(clock, waitMs, next(), SILENT, signal)
    if (step?.done) return replyOf(assembler.message(), assembler.end(), limits)
    if (step?.value === LIFE) continue
    const text = jsonOf(step?.value)
    if (measure.count(text) % BREATH === 0) await breathe()
    if (assembler.end().isFinished) continue // behind `finish` nothing counts, but for its size
    const chunk = ours(chunkOf(JSON.parse(text)), messageId)
    assembler.push(chunk)
    measure.look(chunk, assembler.length())
    if (chunk.type !== 'error' && chunk.type !== 'abort') onChunk(chunk)
    await crashPoint('turn.chunk')
  }
}

/** Throws when the stream is more than a reply may be. */
function createMeasure(limits: CallLimits) {
  const size = { chunks: 0, chunkBytes: 0, bytes: 0, metadataBytes: 0, parts: 0 }
  const check = () => {
    const [over] = (Object.keys(size) as (keyof typeof size)[]).filter((name) => size[name] > limits[name])
    if (over)
      throw new AgentFault('too_large', `A reply has at most ${limits[over]} ${over}`, { isFinal: true })
  }
  return {
    /** Before it is looked at; answers how many there were. */
    count: (text: string): number => {
      size.chunks += 1
      size.chunkBytes = Buffer.byteLength(text)
      size.bytes += size.chunkBytes
      check()
      return size.chunks
    },
    look: (chunk: Chunk, parts: number) => {
      size.parts = parts
      if ('messageMetadata' in chunk) size.metadataBytes += JSON.stringify(chunk.messageMetadata).length
      check()
    },
  }
}

/** As it would come from afar: what is no JSON is lost here, and not between what readers see and what is stored. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch {
    throw new ChunkError('A chunk cannot be written as JSON')
  }
}

/** The id of the reply is that of its turn, whatever the agent calls it. */
function ours(chunk: Chunk, messageId: string): Chunk {
  return chunk.type === 'start' ? { ...chunk, messageId } : chunk
}

function replyOf(message: Message, end: StreamEnd, limits: CallLimits): Message | undefined {
  const { isFinished, isAborted, finishReason, errorText } = end
  if (errorText !== undefined)
    throw new AgentFault('agent_error', `The agent said: ${errorText}`, { isFinal: false })
  if (isAborted) throw new AgentFault('agent_error', 'The agent gave up by itself', { isFinal: false })
  if (!isFinished)
    throw new AgentFault('incomplete', 'The stream of the agent ended before its finish', { isFinal: false })
  if (finishReason === 'error' || finishReason === 'interrupted')
    throw new AgentFault('agent_error', `The agent finished with ${finishReason}`, { isFinal: false })
  const fault = messageFault(message)
  if (fault !== undefined)
    throw new AgentFault('agent_protocol', `The reply cannot be stored: ${fault}`, { isFinal: true })
  if (Buffer.byteLength(JSON.stringify(message)) > limits.messageBytes)
    throw new AgentFault('too_large', `The reply is over ${limits.messageBytes} bytes of JSON`, {
      isFinal: true,
    })
  return hasContent(message) ? message : undefined
}
