// Reads the tokens that an agent reports in the chunks of one attempt. The shape is that of the AI SDK (`LanguageModelUsage`). Pure.
//
//   the chunk                                              counts
//   metadata of the message has `usage`                    as the usage of the whole attempt, with its `model`. The last one is
//   (of `start`, `message-metadata` or `finish`)           taken, and steps are not counted
//   `data-usage` with `data.usage` and `data.model`        as the usage of one step. A second one with the same id replaces the
//                                                          first; the steps of a model are summed
// Nothing is trusted: a count is a whole number from 0 to 2^31 - 1, or it is missing. A model's name is short and printable, or it is
// empty. One attempt has at most 20 models; the steps of further models count for the model ''.
import type { Chunk } from '@fleetline/protocol'

export const TOKEN_KINDS = [
  'inputTokens',
  'outputTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'reasoningTokens',
] as const
export type TokenKind = (typeof TOKEN_KINDS)[number]
/** Null: not reported. */
export type TokenCounts = Readonly<Record<TokenKind, number | null>>
export type ModelTokens = TokenCounts & { readonly model: string }

export type TokenMeter = {
  readonly take: (chunk: Chunk) => void
  /** What was reported so far, by model. Empty: nothing. */
  readonly models: () => readonly ModelTokens[]
  /** How long the conversation was in the last call of the model: what it was sent, and what it said. Undefined: not known. */
  readonly contextTokens: () => number | undefined
}

const MOST = 2 ** 31 - 1
const MOST_MODELS = 20
const MOST_STEPS = 1_000 // with an id of their own; those beyond are summed at once
const MODEL = /^[\w.:/@+-][\w.:/@+ -]{0,127}$/

export function createTokenMeter(): TokenMeter {
  let [whole, last, calls]: [ModelTokens | undefined, ModelTokens | undefined, number] = [
    undefined,
    undefined,
    0,
  ]
  const steps = new Map<string, ModelTokens>()
  const rest = createSums()
  const takeStep = (id: string | undefined, step: ModelTokens) => {
    last = step
    if (id !== undefined && (steps.has(id) || steps.size < MOST_STEPS)) steps.set(id, step)
    else rest.add(step)
  }
  return {
    take: (chunk) => {
      if (chunk.type === 'start-step') calls += 1
      if ('messageMetadata' in chunk) {
        const { usage, model } = chunk.messageMetadata ?? {}
        whole = readTokens(usage, model) ?? whole
      } else if (chunk.type === 'data-usage') {
        const { usage, model } = fieldsOf(chunk.data)
        const step = readTokens(usage, model)
        if (step) takeStep(chunk.id, step)
      }
    },
    models: () => {
      if (whole) return [whole]
      const sums = createSums(rest.list())
      for (const step of steps.values()) sums.add(step)
      return sums.list()
    },
    contextTokens: () => contextOf(last ?? (calls > 1 ? undefined : whole)),
  }
}

/** Undefined if nothing is reported. */
function readTokens(usage: unknown, model: unknown): ModelTokens | undefined {
  const { inputTokens, outputTokens, cachedInputTokens, reasoningTokens, ...details } = fieldsOf(usage)
  const input = fieldsOf(details['inputTokenDetails'])
  const output = fieldsOf(details['outputTokenDetails'])
  const counts: TokenCounts = {
    inputTokens: countOf(inputTokens),
    outputTokens: countOf(outputTokens),
    cacheReadTokens: countOf(input['cacheReadTokens'] ?? cachedInputTokens),
    cacheWriteTokens: countOf(input['cacheWriteTokens']),
    reasoningTokens: countOf(output['reasoningTokens'] ?? reasoningTokens),
  }
  if (TOKEN_KINDS.every((kind) => counts[kind] === null)) return undefined
  return { model: typeof model === 'string' && MODEL.test(model) ? model : '', ...counts }
}

function countOf(value: unknown): number | null {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MOST
    ? (value as number)
    : null
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function contextOf(call: ModelTokens | undefined): number | undefined {
  if (!call || call.inputTokens === null) return undefined
  return call.inputTokens + (call.outputTokens ?? 0)
}

function createSums(before: readonly ModelTokens[] = []) {
  const sums = new Map(before.map((one) => [one.model, one]))
  return {
    add: (one: ModelTokens) => {
      const model = sums.has(one.model) || sums.size < MOST_MODELS ? one.model : ''
      sums.set(model, { ...summed(sums.get(model), one), model })
    },
    list: () => [...sums.values()],
  }
}

function summed(sum: TokenCounts | undefined, one: TokenCounts): TokenCounts {
  return combined(sum, one, (before, more) => Math.min(MOST, before + more))
}

/** The highest number of each kind. */
export function highestOf(one: TokenCounts, other: TokenCounts): TokenCounts {
  return combined(one, other, Math.max)
}

function combined(
  one: TokenCounts | undefined,
  other: TokenCounts,
  how: (a: number, b: number) => number,
): TokenCounts {
  const of = (kind: TokenKind) => {
    const [a, b] = [one?.[kind] ?? null, other[kind]]
    return a === null || b === null ? (a ?? b) : how(a, b)
  }
  return {
    inputTokens: of('inputTokens'),
    outputTokens: of('outputTokens'),
    cacheReadTokens: of('cacheReadTokens'),
    cacheWriteTokens: of('cacheWriteTokens'),
    reasoningTokens: of('reasoningTokens'),
  }
}
