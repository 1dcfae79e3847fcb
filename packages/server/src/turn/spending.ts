// What one attempt of a turn has used so far, as its agent reports it.
import type { Chunk } from '@fleetline/protocol'
import type { Claim } from '../task/claim.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { AttemptUsage, UsageOutcome } from '../usage/record.ts'
import { createTokenMeter, TOKEN_KINDS, type TokenKind } from '../usage/tokens.ts'

export type Spending = {
  /** Called when the agent is called. */
  readonly begin: () => void
  readonly take: (chunk: Chunk) => void
  readonly hasSpoken: () => boolean
  /** Undefined if the agent was not called. */
  readonly used: (outcome: UsageOutcome) => AttemptUsage | undefined
  readonly contextTokens: () => number | undefined
}

export function createSpending({ attempt }: Pick<Claim, 'attempt'>): Spending {
  const meter = createTokenMeter()
  let [isCalled, hasSpoken] = [false, false]
  return {
    begin: () => void (isCalled = true),
    take: (chunk) => {
      hasSpoken = true
      meter.take(chunk)
    },
    hasSpoken: () => hasSpoken,
    used: (outcome) => (isCalled ? { attempt, outcome, models: meter.models() } : undefined),
    contextTokens: meter.contextTokens,
  }
}

const LABELS: Readonly<Record<TokenKind, string>> = {
  inputTokens: 'input',
  outputTokens: 'output',
  cacheReadTokens: 'cache_read',
  cacheWriteTokens: 'cache_write',
  reasoningTokens: 'reasoning',
}

export function countUsed(metrics: Pick<Metrics, 'count'>, { models }: AttemptUsage): void {
  metrics.count('attemptsReported', { reported: String(models.length > 0) })
  for (const model of models)
    for (const kind of TOKEN_KINDS) {
      const tokens = model[kind]
      if (tokens !== null) metrics.count('tokens', { kind: LABELS[kind] }, tokens)
    }
}
