// Watches one call of an agent: keeps the head of the answer, and the beginning of what the agent sent, so that a check can show it.
import type { Dispatcher } from 'undici'
import { ChunkText, type AgentAnswer, type AgentDefinition } from '../agent/agent.ts'
import { encodingOf, typeOf, type HttpAnswer } from '../agent/answer.ts'
import type { SendRequest } from '../agent/webhook.ts'
import { createBytes } from '../lib/bytes.ts'
import { within, type Clock } from '../lib/clock.ts'

export type AnswerHead = {
  readonly status: number
  readonly type: string
  readonly encoding: string
  readonly location: string | undefined
}

export type CallWatch = {
  /** Sends as a pod does. */
  readonly send: SendRequest
  /** The same agent. Its chunks are noted on their way. */
  readonly noting: (agent: AgentDefinition) => AgentDefinition
  readonly head: () => AnswerHead | undefined
  /** The text that came after so many valid chunks, if it is known. Without any chunk: the beginning of the body. */
  readonly receivedAfter: (chunks: number) => string | undefined
}

type Deps = {
  readonly clock: Clock
  /** Its text is replaced in what was received. */
  readonly secret: string
  /** The content types that a pod reads. */
  readonly types: readonly string[]
}

const KEPT = 4_096
/** For the body of an answer that a pod would not read. */
const READ_MS = 1_000
const LATE = new Error('The body took too long')

export function createWatch({ clock, secret, types }: Deps): CallWatch {
  let head: AnswerHead | undefined
  let [texts, last] = [0, '']
  const [opening, decoder] = [createOpening(), new TextDecoder()]
  const send: SendRequest = async (client, request) => {
    const answer = await client.request(request)
    head = headOf(answer)
    const body = opening.noting(answer.body)
    if (head.status < 400 && types.includes(head.type)) return { ...answer, body }
    await within(clock, READ_MS, readOpening(body), LATE, request.signal as AbortSignal).catch(ignore)
    return answer
  }
  const note = (text: string) => {
    texts += 1
    last = text.slice(0, KEPT)
  }
  return {
    send,
    noting: (agent) => ({
      ...agent,
      answer: async (call) => notedChunks(await agent.answer(call), note),
    }),
    head: () => head,
    receivedAfter: (chunks) => {
      if (texts <= chunks && chunks > 0) return undefined
      const text = texts > chunks ? last : decoder.decode(opening.all())
      return text.replaceAll(secret.replace(/^whsec_/, ''), '…')
    },
  }
}

function headOf({ statusCode: status, headers }: Dispatcher.ResponseData): AnswerHead {
  const location = headers['location']?.toString().slice(0, 200)
  return { status, type: typeOf(headers), encoding: encodingOf(headers), location }
}

/** Keeps the first bytes of a body. */
function createOpening() {
  const kept = createBytes()
  return {
    all: () => kept.all(),
    noting: async function* (body: HttpAnswer['body']): AsyncGenerator<Uint8Array> {
      for await (const piece of body) {
        kept.add(piece.subarray(0, KEPT - kept.all().length))
        yield piece
      }
    },
  }
}

async function readOpening(body: AsyncIterable<Uint8Array>): Promise<void> {
  let length = 0
  for await (const piece of body) {
    length += piece.length
    if (length >= KEPT) return
  }
}

async function* notedChunks(chunks: AgentAnswer, note: (text: string) => void): AgentAnswer {
  for await (const chunk of chunks) {
    if (chunk instanceof ChunkText) note(chunk.text)
    yield chunk
  }
}

function ignore(): void {}
