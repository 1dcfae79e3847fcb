// The tokens of a run: AG-UI counts them by provider and model, the AI SDK by step. Both count the parts (cached, reasoning) within the
// totals.
import { isFields, type Chunk, type Message } from '@fleetline/protocol'

type Fields = { readonly [field: string]: unknown }

/** Reports the tokens of a run. One entry counts for the whole reply (`message-metadata`); several become one `data-usage` chunk each. */
export function usageChunks(usage: unknown): Chunk[] {
  const entries: Fields[] = Array.isArray(usage) ? usage.filter(isFields) : []
  const counted = entries.map((entry) => {
    const { provider, model = provider, inputTokens, outputTokens, totalTokens } = entry
    const inputTokenDetails = {
      cacheReadTokens: entry['cachedInputTokens'],
      cacheWriteTokens: entry['cacheWriteInputTokens'],
    }
    const outputTokenDetails = { reasoningTokens: entry['reasoningTokens'] }
    const counts = { inputTokens, outputTokens, totalTokens, inputTokenDetails, outputTokenDetails }
    return { model, usage: counts }
  })
  const [only, ...others] = counted
  if (only && others.length === 0) return [{ type: 'message-metadata', messageMetadata: only }]
  return counted.map((data, index) => ({ type: 'data-usage', id: `run-${index}`, data }))
}

/** The entries of a stored reply, which counts its tokens as the AI SDK does. Undefined: it reports nothing. */
export function usageOf({ parts, metadata }: Pick<Message, 'parts' | 'metadata'>): Fields[] | undefined {
  const whole = entryOf(metadata?.['usage'], metadata?.['model'])
  if (whole) return [whole]
  const steps = parts.filter(({ type }) => type === 'data-usage').map(({ data }) => fieldsOf(data))
  const entries = steps.flatMap(({ usage, model }): Fields[] => {
    const entry = entryOf(usage, model)
    return entry ? [entry] : []
  })
  return entries.length > 0 ? entries : undefined
}

function entryOf(usage: unknown, model: unknown): Fields | undefined {
  const { inputTokens, outputTokens, totalTokens, reasoningTokens, cachedInputTokens, ...details } =
    fieldsOf(usage)
  const [input, output] = [fieldsOf(details['inputTokenDetails']), fieldsOf(details['outputTokenDetails'])]
  const counts = {
    inputTokens,
    outputTokens,
    totalTokens,
    cachedInputTokens: input['cacheReadTokens'] ?? cachedInputTokens,
    cacheWriteInputTokens: input['cacheWriteTokens'],
    reasoningTokens: output['reasoningTokens'] ?? reasoningTokens,
  }
  const given = Object.entries(counts).filter(
    ([, count]) => Number.isSafeInteger(count) && Number(count) >= 0,
  )
  if (given.length === 0) return undefined
  return { ...(typeof model === 'string' && { model }), ...Object.fromEntries(given) }
}

function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {}
}
