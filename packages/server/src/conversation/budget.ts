// When a conversation is long enough to be compacted. Pure. Tokens are what the agent reported for its last call, or a quarter of the
// bytes of what it was sent and what it replied.

export type Budget = {
  /** How many tokens the agent may be sent. */
  readonly tokenBudget: number
  /** The part of the budget from which on the conversation is compacted. */
  readonly triggerRatio: number
}
/** How long a conversation is when a turn has ended. */
export type ContextSize = { readonly tokens: number; readonly budget: Budget }

const BYTES_PER_TOKEN = 4
/** After a failure the next try comes after another tenth of the budget. */
const AGAIN_RATIO = 0.1

export function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** `from`: what an earlier failure has set; 0 if there was none. */
export function isOverBudget({ tokens, budget }: ContextSize, from: number): boolean {
  return tokens >= Math.max(budget.tokenBudget * budget.triggerRatio, from)
}

/** How many tokens there must be before the next try. */
export function nextTryFrom({ tokens, budget }: ContextSize): number {
  return tokens + Math.ceil(budget.tokenBudget * AGAIN_RATIO)
}
