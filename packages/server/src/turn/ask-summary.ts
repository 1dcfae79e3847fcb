// Asks an agent for a summary of a conversation, and decides whether the answer can be stored as one.
import { ChunkError, jsonFault, MESSAGE_LIMITS } from '@fleetline/protocol'
import type { AgentDefinition, CompactCall } from '../agent/agent.ts'
import { AgentFault } from '../agent/fault.ts'
import { bytesOfTokens } from '../conversation/budget.ts'
import { within, type Clock } from '../lib/clock.ts'

const LATE = new AgentFault('timeout', 'The agent took too long to summarise', { isFinal: false })

/** Resolves to what the agent answered. The agent must have `compact`. */
export function askSummary(
  clock: Clock,
  { compact }: Pick<AgentDefinition, 'compact'>,
  call: CompactCall,
): Promise<string> {
  const asked = (async () => compact!(call))().catch(throwFault)
  return within(clock, Math.max(1, call.deadlineMs), asked, LATE, call.signal)
}

/** Throws if the summary is none, or too long. */
export function checkSummary(text: unknown, maxTokens: number): string {
  const isText = typeof text === 'string' && jsonFault(text) === undefined
  if (!isText || text.trim() === '')
    throw new AgentFault('agent_protocol', 'The summary is empty or cannot be stored', { isFinal: true })
  const most = Math.min(MESSAGE_LIMITS.bytes, bytesOfTokens(maxTokens))
  const bytes = Buffer.byteLength(text)
  if (bytes > most)
    throw new AgentFault('too_large', `The summary has ${bytes} bytes, and may have ${most}`, {
      isFinal: true,
    })
  return text
}

function throwFault(error: unknown): never {
  throw error instanceof ChunkError
    ? new AgentFault('agent_protocol', error.message, { isFinal: true, quotesAgent: true })
    : error
}
