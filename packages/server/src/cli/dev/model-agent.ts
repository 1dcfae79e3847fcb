// The agent of a dev fleet that has a model: behind a URL as any other, so that pods know of no model. It says what the model
// says, and nothing but text is said to it.
//   the server of the model              this agent
//   200, and events                      what they say, and what they reason; `finish` behind their end
//   they break off                       breaks off: it is asked again
//   429, 5xx                             the same, with its Retry-After: it is asked again
//   cannot be reached                    502: it is asked again
//   any other status                     422: it is not asked again
// Why it did not answer, is an event of the fleet.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { createChunkDecoder, type Message } from '@fleetline/protocol'
import { z } from 'zod'
import { SignatureError, verify } from '../../agent-kit.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { authorization, type Model } from './model.ts'

export type ModelAgent = Service & { url(): string }

type Deps = {
  readonly model: Model
  readonly secret: string
  /** Tells that the model cannot be talked to. */
  readonly onRefused: (reason: string) => void
}

export function createModelAgent(deps: Deps): ModelAgent {
  const server = createServer((incoming, outgoing) => {
    answer(deps, incoming, outgoing).catch((error: unknown) => {
      if (error instanceof SignatureError) return void outgoing.writeHead(error.status).end(error.message)
      if (!outgoing.destroyed) deps.onRefused('its answer broke off, or cannot be read')
      outgoing.destroy()
    })
  })
  return {
    name: 'model',
    url: () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    start: async () => {
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
    },
    stop: async () => {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

async function answer(
  { model, secret, onRefused }: Deps,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const left = new AbortController()
  outgoing.on('close', () => left.abort())
  const { messages } = await verify(requestOf(incoming), secret)
  const asked = await ask(model, messages, left.signal)
  if (!asked.ok || !asked.body) {
    onRefused(await reasonOf(asked, model))
    return void outgoing.writeHead(statusOf(asked), retryAfterOf(asked)).end()
  }
  outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' })
  for await (const chunk of chunksOf(asked.body)) outgoing.write(`${JSON.stringify(chunk)}\n`)
  outgoing.end()
}

async function ask(
  { name, url, key }: Model,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...authorization(key) },
      body: JSON.stringify({ model: name, messages: messages.flatMap(saidOf), stream: true }),
      redirect: 'error',
      signal,
    })
  } catch (error) {
    if (signal.aborted) throw error
    return Response.json({ error: { message: `${url} cannot be reached` } }, { status: 502 })
  }
}

function requestOf(incoming: IncomingMessage): Request {
  const headers = incoming.headers as Record<string, string>
  return new Request('http://localhost/', {
    method: 'POST',
    headers,
    body: Readable.toWeb(incoming),
    duplex: 'half',
  })
}

/** Nothing, of a message without text. */
function saidOf({ role, parts }: Message): { role: string; content: string }[] {
  const texts = parts.flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
  return texts.length === 0 ? [] : [{ role, content: texts.join('\n') }]
}

const wordsSchema = z.string().nullish()
const eventSchema = z.object({
  error: z.unknown().optional(),
  choices: z
    .array(
      z.object({
        // What it reasons has two names: Ollama's, and that of most others.
        delta: z
          .object({ content: wordsSchema, reasoning: wordsSchema, reasoning_content: wordsSchema })
          .default({}),
        finish_reason: wordsSchema,
      }),
    )
    .default([]),
})

/** As chunks of the AI SDK's UI message stream. Without `finish`, if the events ended before the model did. */
async function* chunksOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<object> {
  let [isDone, open, parts] = [false, '', 0]
  const begin = function* (kind: string) {
    if (kind === open) return
    if (open) yield { type: `${open}-end`, id: String(parts) }
    open = kind
    if (kind) yield { type: `${kind}-start`, id: String((parts += 1)) }
  }
  yield { type: 'start' }
  for await (const { error, choices } of eventsOf(body)) {
    if (error) return yield { type: 'error', errorText: 'The model failed' }
    const { delta, finish_reason: reason } = choices[0] ?? { delta: {} }
    for (const [kind, words] of [
      ['reasoning', delta.reasoning_content ?? delta.reasoning],
      ['text', delta.content],
    ] as const) {
      if (!words) continue
      yield* begin(kind)
      yield { type: `${kind}-delta`, id: String(parts), delta: words }
    }
    isDone ||= typeof reason === 'string'
  }
  yield* begin('')
  if (isDone) yield { type: 'finish' }
}

async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<z.infer<typeof eventSchema>> {
  const decoder = createChunkDecoder()
  for await (const piece of body)
    for (const text of decoder.push(piece)) yield eventSchema.parse(JSON.parse(text))
}

function statusOf({ status }: Response): number {
  return status === 429 || status >= 500 ? status : 422
}

function retryAfterOf({ headers }: Response): Record<string, string> {
  const after = headers.get('retry-after')
  return after === null ? {} : { 'retry-after': after }
}

const REASON_LENGTH = 300
const refusalSchema = z.object({ error: z.object({ message: z.string() }) })

/** In the words of the server, if it has any, without the key. */
async function reasonOf(answer: Response, { key }: Model): Promise<string> {
  const body: unknown = await answer.json().catch(() => undefined)
  const { success, data } = refusalSchema.safeParse(body)
  const said = success ? `: ${data.error.message.slice(0, REASON_LENGTH)}` : ''
  return `status ${answer.status}${key === undefined ? said : said.replaceAll(key, '…')}`
}
