// The agent of a dev fleet that has a model. It is behind a URL like any other agent, so pods know nothing of models. It says
// what the model says; the model gets only the text of the conversation.
//   the model's server                   this agent answers
//   200, and events                      their content as chunks (model-words.ts)
//   the events break off                 a broken-off reply: the pod retries
//   408, 425, 429, 5xx                   the same status and Retry-After: the pod retries
//   cannot be reached                    502: the pod retries
//   any other status, no credit left     422: the pod does not retry
// It reports why the model did not answer, without the key.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Message } from '@fleetline/protocol'
import { z } from 'zod'
import { SignatureError, verify } from '../../agent-kit.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { createHttpService } from './http-service.ts'
import { chunksOf } from './model-words.ts'
import { authorization, type Model } from './model.ts'

type ModelAgent = Service & { readonly url: () => string }

type Deps = {
  readonly model: Model
  /** Preferred; if it is taken, any other. */
  readonly port: number
  readonly secret: () => string
  readonly onRefused: (reason: string) => void
}

const HOST = '127.0.0.1'
const REASON_LENGTH = 300

export function createModelAgent({ model, port, secret, onRefused }: Deps): ModelAgent {
  const { key } = model
  const tell = (reason: string) => {
    const shown = key === undefined ? reason : reason.replaceAll(key, '…')
    onRefused(shown.replaceAll(/\s+/g, ' ').slice(0, REASON_LENGTH))
  }
  const server = createServer((incoming, outgoing) => {
    answer({ model, secret: secret(), tell }, incoming, outgoing).catch((error: unknown) => {
      if (error instanceof SignatureError) return void outgoing.writeHead(error.status).end(error.message)
      if (!outgoing.destroyed) tell('its answer broke off, or cannot be read')
      outgoing.destroy()
    })
  })
  const service = createHttpService(server, { name: 'model', host: HOST, port })
  return { ...service, url: () => `http://${HOST}:${service.port()}/` }
}

type Around = { readonly model: Model; readonly secret: string; readonly tell: (reason: string) => void }

async function answer(
  { model, secret, tell }: Around,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const left = new AbortController()
  outgoing.on('close', () => left.abort())
  const { messages } = await verify(requestOf(incoming), secret)
  const asked = await ask(model, messages, left.signal)
  if (!asked.ok || !asked.body) {
    const { status, reason } = await refusalIn(asked)
    tell(reason)
    return void outgoing.writeHead(status, retryAfterOf(asked)).end()
  }
  outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' })
  for await (const chunk of chunksOf(asked.body, tell)) outgoing.write(`${JSON.stringify(chunk)}\n`)
  outgoing.end()
}

function requestOf(incoming: IncomingMessage): Request {
  return new Request('http://localhost/', {
    method: 'POST',
    headers: incoming.headers as Record<string, string>,
    body: Readable.toWeb(incoming),
    duplex: 'half',
  })
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

/** Empty for a message without text. */
function saidOf({ role, parts }: Message): { role: string; content: string }[] {
  const texts = parts.flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
  return texts.length === 0 ? [] : [{ role, content: texts.join('\n') }]
}

const NO_CREDIT = 'insufficient_quota' // OpenAI sends it with status 429, but waiting does not help
const refusalSchema = z.object({ error: z.object({ message: z.string(), code: z.unknown().optional() }) })

/** Gives the reason in the server's own words, if there are any. */
async function refusalIn(answer: Response): Promise<{ status: number; reason: string }> {
  const body: unknown = await answer.json().catch(() => undefined)
  const { data } = refusalSchema.safeParse(body)
  const { status } = answer
  const isLater = ([408, 425, 429].includes(status) && data?.error.code !== NO_CREDIT) || status >= 500
  return {
    status: isLater ? status : 422,
    reason: `status ${status}${data ? `: ${data.error.message}` : ''}`,
  }
}

function retryAfterOf({ headers }: Response): Record<string, string> {
  const after = headers.get('retry-after')
  return after === null ? {} : { 'retry-after': after }
}
