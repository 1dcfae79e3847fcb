// Turns the answer of a model's server into chunks of the AI SDK's UI message stream: its text and its reasoning. The last
// chunk is `finish`. An answer that broke off has no `finish`.
import { createChunkDecoder } from '@fleetline/protocol'
import { z } from 'zod'

const wordsSchema = z.string().nullish()
const eventSchema = z.object({
  error: z.unknown().optional(),
  choices: z
    .array(
      z.object({
        // Reasoning has two names: Ollama's, and that of most other servers.
        delta: z
          .object({ content: wordsSchema, reasoning: wordsSchema, reasoning_content: wordsSchema })
          .default({}),
        finish_reason: wordsSchema,
      }),
    )
    .default([]),
})
type Event = z.infer<typeof eventSchema>

/** Calls `tell` with the reason if the answer is incomplete. */
export async function* chunksOf(
  body: AsyncIterable<Uint8Array>,
  tell: (reason: string) => void,
): AsyncGenerator<object> {
  let [isDone, open, parts] = [false, '', 0]
  const begin = function* (kind: string) {
    if (kind === open) return
    if (open) yield { type: `${open}-end`, id: String(parts) }
    open = kind
    if (kind) yield { type: `${kind}-start`, id: String((parts += 1)) }
  }
  yield { type: 'start' }
  for await (const { error, choices } of eventsOf(body)) {
    if (error) {
      tell(`it failed in the middle: ${JSON.stringify(error)}`)
      return yield { type: 'error', errorText: 'The model failed' }
    }
    const { delta, finish_reason: reason } = choices[0] ?? { delta: {} }
    for (const [kind, words] of wordsIn(delta)) {
      yield* begin(kind)
      yield { type: `${kind}-delta`, id: String(parts), delta: words }
    }
    isDone ||= Boolean(reason)
  }
  yield* begin('')
  if (isDone) yield { type: 'finish' }
  else tell('its answer broke off')
}

function wordsIn(delta: Event['choices'][number]['delta']): [kind: string, words: string][] {
  const found = [
    ['reasoning', delta.reasoning_content ?? delta.reasoning],
    ['text', delta.content],
  ] as const
  return found.flatMap(([kind, words]) => (words ? [[kind, words]] : []))
}

async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Event> {
  const decoder = createChunkDecoder()
  for await (const piece of body)
    for (const text of decoder.push(piece)) yield eventSchema.parse(JSON.parse(text))
}
