// One call of an agent, from the first chunk to the last. Nothing of it is believed: every value is looked at, what it may
// send and how long it may be silent has a limit, and one that goes on after its signal is left behind.
//   the stream                                             answer
//   ended behind `finish`                                  the message that its chunks make, or nothing if that is empty
//   ended without `finish`, said `error`, finished with    a fault to try again after
//   `error` or `interrupted`; was silent, or took, too long
//   held what is no chunk, a chunk at a wrong place, or    a fault that stays: `agent_protocol`, `too_large`
//   more than its limits
//   threw                                                  what it threw, as it is
import {
  ChunkError,
  chunkOf,
  createAssembler,
  messageFault,
  type Chunk,
  type Message,
  type StreamEnd,
} from '@fleetline/protocol'
import type { AgentCall, AgentDefinition } from '../agent/agent.ts'
import { within, type Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'

export type CallLimits = Readonly<
  Record<'firstMs' | 'silenceMs' | 'wholeMs' | 'chunks' | 'bytes' | 'messageBytes', number>
>
export const CALL_LIMITS: CallLimits = {
  firstMs: 30_000,
  silenceMs: 60_000,
  wholeMs: 900_000,
  chunks: 100_000,
  bytes: 64 * 1024 * 1024,
  messageBytes: 4 * 1024 * 1024,
}

/** Of the agent, not of us. `isFinal`: the same would come again. */
export class AgentFault extends Error {
  override readonly name = 'AgentFault'
  readonly code: string
  readonly isFinal: boolean

  constructor(code: string, message: string, isFinal: boolean) {
    super(message)
    this.code = code
    this.isFinal = isFinal
  }
}

const LATE = new AgentFault('timeout', 'The agent took too long', false)
const SILENT = new AgentFault('timeout', 'The agent was silent for too long', false)

type Deps = { readonly clock: Clock; readonly limits: CallLimits }

/** Rejects with the signal's reason when that is aborted. The signal that the agent gets is aborted when this ends. */
export async function callAgent(
  { clock, limits }: Deps,
  { answer }: AgentDefinition,
  call: AgentCall,
): Promise<Message | undefined> {
  const over = new AbortController()
  const signal = AbortSignal.any([call.signal, over.signal])
  const begin = async () => answer({ ...call, signal })
  const reading = async () => {
    const stream = await within(clock, limits.firstMs, begin(), SILENT, signal)
    if (typeof stream?.[Symbol.asyncIterator] !== 'function')
      throw new AgentFault('agent_protocol', 'The agent did not answer with a stream of chunks', true)
    return read(stream[Symbol.asyncIterator](), { clock, limits, signal, messageId: call.turn.messageId })
  }
  try {
    call.signal.throwIfAborted()
    return await within(clock, limits.wholeMs, reading(), LATE, call.signal)
  } finally {
    over.abort(new Error('the call has ended'))
  }
}

type Reading = Deps & { readonly signal: AbortSignal; readonly messageId: string }

async function read(
  stream: AsyncIterator<unknown>,
  { clock, limits, signal, messageId }: Reading,
): Promise<Message | undefined> {
  const assembler = createAssembler(messageId)
  const size = { chunks: 0, bytes: 0 }
  try {
    for (let waitMs = limits.firstMs; ; waitMs = limits.silenceMs) {
      const next = await within(clock, waitMs, stream.next(), SILENT, signal)
      if (next.done) return replyOf(assembler.message(), assembler.end(), limits)
      if (assembler.end().isFinished) continue // behind `finish` nothing counts
      const text = jsonOf(next.value)
      size.chunks += 1
      size.bytes += Buffer.byteLength(text)
      if (size.chunks > limits.chunks || size.bytes > limits.bytes)
        throw new AgentFault('too_large', 'The agent sent more than a reply may be', true)
      assembler.push(ours(chunkOf(JSON.parse(text)), messageId))
      await crashPoint('turn.chunk')
    }
  } catch (error) {
    leave(stream)
    throw error instanceof ChunkError ? new AgentFault('agent_protocol', error.message, true) : error
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

/** It is told; whether it listens is its own affair. */
function leave(stream: AsyncIterator<unknown>): void {
  const told = async () => stream.return?.()
  told().catch(() => undefined)
}

/** The id of the reply is that of its turn, whatever the agent calls it. */
function ours(chunk: Chunk, messageId: string): Chunk {
  return chunk.type === 'start' ? { ...chunk, messageId } : chunk
}

function replyOf(message: Message, end: StreamEnd, limits: CallLimits): Message | undefined {
  const { isFinished, finishReason, errorText } = end
  if (errorText !== undefined) throw new AgentFault('agent_error', `The agent said: ${errorText}`, false)
  if (!isFinished)
    throw new AgentFault('incomplete', 'The stream of the agent ended before its finish', false)
  if (finishReason === 'error' || finishReason === 'interrupted')
    throw new AgentFault('agent_error', `The agent finished with ${finishReason}`, false)
  const fault = messageFault(message)
  if (fault !== undefined)
    throw new AgentFault('agent_protocol', `The reply cannot be stored: ${fault}`, true)
  if (Buffer.byteLength(JSON.stringify(message)) > limits.messageBytes)
    throw new AgentFault('too_large', `The reply is over ${limits.messageBytes} bytes of JSON`, true)
  return message.parts.some(({ type }) => type !== 'step-start') ? message : undefined
}
