// Decides when a conversation is long enough to be compacted. Pure. Its length in tokens is what the agent reported for its last call, or
// an estimate: one token for each four bytes of the messages that the agent was sent and of its reply.
import { PAGE_LIMITS } from '@fleetline/protocol'

/** What one call may carry of a conversation, as JSON. */
export const MOST_SENT: { readonly messages: number; readonly bytes: number } = {
  messages: 500,
  bytes: PAGE_LIMITS.bytes,
}

export type Budget = {
  /** The size at which you want to keep a conversation, in tokens. It is a target: only the window limits what the agent is sent. */
  readonly tokenBudget: number
  /** The part of the budget from which on the conversation is compacted. */
  readonly triggerRatio: number
}
/** How long a conversation is when a turn has ended. */
export type ContextSize = {
  readonly tokens: number
  readonly budget: Budget
  /** The agent's window has left out messages that no summary covers. */
  readonly isCut: boolean
}

const BYTES_PER_TOKEN = 4
/** After a failure the next try comes after so many messages. A number of tokens would not do: the window limits what is measured. */
const AGAIN_MESSAGES = 20
/** A longer summary would soon have to be summarised itself. */
const SUMMARY_RATIO = 0.5
const FRESH_RATIO = 0.1

export function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** If little was said since the last summary, a new one would not make the conversation shorter: what is long then are the agent's
 *  instructions, which are part of what it reports. So the estimate counts. */
export function contextTokens(
  { tokenBudget, triggerRatio }: Budget,
  estimates: { readonly all: number; readonly fresh: number },
  reported: number | undefined,
): number {
  const isWorthIt = estimates.fresh >= tokenBudget * triggerRatio * FRESH_RATIO
  return isWorthIt ? (reported ?? estimates.all) : estimates.all
}

export function isOverBudget({ tokens, budget, isCut }: ContextSize): boolean {
  return isCut || tokens >= budget.tokenBudget * budget.triggerRatio
}

/** `head`: the last seq when the compaction failed. */
export function nextTryFrom(head: number): number {
  return head + AGAIN_MESSAGES
}

/** How long a summary may be. */
export function mostSummaryTokens({ tokenBudget, triggerRatio }: Budget): number {
  return Math.floor(tokenBudget * triggerRatio * SUMMARY_RATIO)
}

export function bytesOfTokens(tokens: number): number {
  return tokens * BYTES_PER_TOKEN
}
