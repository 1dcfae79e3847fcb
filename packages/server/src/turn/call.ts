// One call of an agent, from the first chunk to the last. Nothing of it is believed: every value is looked at, what it may
// send and how long it may be silent has a limit, and one that goes on after its signal is left behind, at once.
//   the stream                                             answer
//   said `finish`                                          the message that its chunks make, or nothing if that is empty
//   said `error` as `fleetline:{…}`                        what that says: agent/own-error.ts
//   ended without `finish`, said `error` or `abort`,       a fault to try again after
//   finished with `error` or `interrupted`; was silent, or
//   took, too long
//   held what is no chunk, a chunk at a wrong place, or    a fault that stays: `agent_protocol`, `too_large`
//   more than its limits
//   threw                                                  what it threw, as it is
// Behind `finish`, `error` and `abort` it has some time to end by itself; what it does then changes nothing.
import {
  ChunkError,
  chunkOfText,
  hasContent,
  MESSAGE_LIMITS,
  messageFault,
  type Assembler,
  type Chunk,
  type Message,
  type StreamEnd,
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
  /** Behind what ends the reply: an agent may have something to put away, and nobody waits for it without end. */
  tailMs: 10_000,
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
const SILENT = new AgentFault('timeout', 'The agent was silent for too long', { isFinal: false, status: 408 })

const BREATH = 64 // chunks: an agent that has them all at once does not hold up the pod

type Deps = {
  readonly clock: Clock
  readonly limits: CallLimits
  /** Of the reply: it holds what was said, also if the call fails. */
  readonly assembler: Assembler
  /** Each chunk of the reply, in its order, as it comes; but for those after which another attempt may come. The next is asked for when this has resolved. */
  readonly onChunk: (chunk: Chunk) => Promise<void> | undefined
  /** It is called now. Resolves when it has ended its stream, which one that was left behind may do later. */
  readonly onCalled?: (ended: Promise<void>) => void
  /** A chunk came behind what ended the reply. */
  readonly onIgnored?: () => void
}

/** Rejects with the signal's reason when that is aborted. The signal that the agent gets is aborted when this ends. */
export async function callAgent(
  deps: Deps,
  { answer }: AgentDefinition,
  call: AgentCall,
): Promise<Message | undefined> {
  const { clock, limits, assembler, onCalled } = deps
  call.signal.throwIfAborted()
  const [over, ended] = [new AbortController(), Promise.withResolvers<void>()]
  const signal = AbortSignal.any([call.signal, over.signal])
  const around = { ...deps, signal, messageId: call.turn.messageId } // before the agent has the call in its hands
  const begun = (async () => iteratorOf(await answer({ ...call, signal })))()
  onCalled?.(ended.promise)
  const reading = async () => {
    const stream = await within(clock, limits.firstMs, begun, SILENT, signal)
    return { stream, isRead: await read(stream, around) }
  }
  let isEnded = false
  try {
    const { stream, isRead } = await within(clock, limits.wholeMs, reading(), LATE, call.signal)
    isEnded = isRead || (await drain(stream, around))
    return replyOf(assembler.message(), assembler.end(), limits)
  } catch (error) {
    throw error instanceof ChunkError
      ? new AgentFault('agent_protocol', error.message, { isFinal: true })
      : error
  } finally {
    if (isEnded) ended.resolve()
    else begun.then(leave).then(ended.resolve, ended.resolve) // it has none, or this was its failure
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

/** Up to the chunk that says how it ends, or to its end, which is answered with true. */
async function read(
  stream: AsyncIterator<unknown>,
  { clock, limits, assembler, onChunk, signal, messageId }: Reading,
): Promise<boolean> {
  const measure = createMeasure(limits, assembler)
  for (let waitMs = limits.firstMs; !isOver(assembler.end()); waitMs = limits.silenceMs) {
    signal.throwIfAborted() // a step that is there at once is faster than the signal
    const step = await within(clock, waitMs, next(stream), SILENT, signal)
    if (step?.done) return true
    if (step?.value === LIFE) continue
    const text = step?.value instanceof ChunkText ? step.value.text : jsonOf(step?.value)
    if (measure.count(text) % BREATH === 0) await yieldToEventLoop()
    const chunk = ours(chunkOfText(text), messageId)
    measure.look(chunk)
    assembler.push(chunk)
    measure.weigh()
    const room = chunk.type === 'error' || chunk.type === 'abort' ? undefined : onChunk(chunk)
    if (!isOver(assembler.end())) await room
    await crashPoint('turn.chunk')
  }
  return false
}

function isOver({ isFinished, isAborted, errorText }: StreamEnd): boolean {
  return isFinished || isAborted === true || errorText !== undefined
}

/**
 * Behind that nothing counts: not what it says, not how it ends, nor that the call is ended meanwhile, since whether the
 * reply may still be stored is not decided here. Answers whether it ended by itself.
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
      if (left % BREATH === 0) await yieldToEventLoop()
    }
    return false
  }
  return within(clock, limits.tailMs, rest(), SILENT, signal).catch(() => false)
}

async function next(stream: AsyncIterator<unknown>): Promise<Partial<IteratorResult<unknown>> | undefined> {
  return await stream.next()
}

/** Throws when the stream is more than a reply may be. */
function createMeasure(limits: CallLimits, assembler: Assembler) {
  const size = { chunks: 0, chunkBytes: 0, bytes: 0, metadataBytes: 0, parts: 0, messageBytes: 0 }
  let unweighed = 0
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
      unweighed += size.chunkBytes
      check()
      return size.chunks
    },
    look: (chunk: Chunk) => {
      if ('messageMetadata' in chunk)
        size.metadataBytes += Buffer.byteLength(JSON.stringify(chunk.messageMetadata) ?? '')
      check()
    },
    /** Of the message so far: its bytes when there may be too many. */
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
  if (errorText !== undefined) throw faultOfText(errorText)
  if (isAborted) throw new AgentFault('agent_error', 'The agent gave up by itself', { isFinal: false })
  if (!isFinished)
    throw new AgentFault('incomplete', 'The stream of the agent ended before its finish', { isFinal: false })
  if (finishReason === 'error' || finishReason === 'interrupted')
    throw new AgentFault('agent_error', `The agent finished with ${finishReason}`, { isFinal: false })
  const fault = messageFault(message)
  if (fault !== undefined)
    throw new AgentFault('agent_protocol', `The reply cannot be stored: ${fault}`, { isFinal: true })
  if (bytesOf(message) > limits.messageBytes)
    throw new AgentFault('too_large', `The reply is over ${limits.messageBytes} bytes of JSON`, {
      isFinal: true,
    })
  return hasContent(message) ? message : undefined
}

function bytesOf(message: Message): number {
  return Buffer.byteLength(JSON.stringify(message))
}
