// A pod whose agent says what a test gives it, word for word, and pages of the AI SDK that talk to it through a connection which can be cut.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Chunk, Item, Page } from '@fleetline/protocol'
import { WebSocketChatTransport, type ChatTransport, type UIMessage, type UIMessageChunk } from 'ai'
import { inNewWords, type Sdk } from '../../../protocol/test/support/releases.ts'
import { agent, type AgentCall } from '../../src/agent/agent.ts'
import { atEnd } from './cleanup.ts'
import { databaseFor } from './database.ts'
import { frontOn } from './front.ts'
import { call } from './http.ts'
import { podOn } from './pod.ts'
import { untilWritten } from './written.ts'

export type PageKind = 'http' | 'socket'
/** What the agent says to one message. */
type Script = {
  readonly chunks: readonly Chunk[]
  /** The agent waits for `go` before this chunk. */
  readonly pauseAt: number | undefined
  readonly paused: PromiseWithResolvers<void>
  readonly go: PromiseWithResolvers<void>
  calls: number
}

export async function openStage(t: TestContext) {
  const scripts = new Map<string, Script>()
  const player = agent('player', async function* ({ messages, signal }: AgentCall) {
    const script = scripts.get(String(messages.at(-1)!.parts[0]!['text']))!
    script.calls += 1
    for (const [place, chunk] of script.chunks.entries()) {
      if (place === script.pauseAt) {
        script.paused.resolve()
        await Promise.race([script.go.promise, new Promise((end) => signal.addEventListener('abort', end))])
      }
      yield chunk
    }
  })
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, { drainMs: '0' }, { agents: [player] })
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'player' })
  const front = await frontOn(t, () => Number(new URL(gateway).port))
  return {
    url: `http://127.0.0.1:${front.port}`,
    /** Breaks the connections of all pages. */
    cut: front.cut,
    /** What the agent says to the message with this text. */
    script: (text: string, chunks: readonly Chunk[], pauseAt?: number): Script => {
      const [paused, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const script = { chunks, pauseAt, paused, go, calls: 0 }
      scripts.set(text, script)
      return script
    },
    untilWritten: (words: string) => untilWritten(t, url, words),
    log: async (id: string): Promise<readonly Item[]> =>
      ((await call('GET', `${gateway}/v1/sessions/${id}/messages`)).body as unknown as Page).items,
    load: async (id: string) =>
      (await (await fetch(`${gateway}/v1/chat/${id}/messages`)).json()) as UIMessage[],
    stop: async (id: string) => (await call('POST', `${gateway}/v1/chat/${id}/stop`, {})).body,
  }
}
type Stage = Awaited<ReturnType<typeof openStage>>

type PageOptions = {
  readonly sdk: Sdk
  readonly kind: PageKind
  readonly chatId: string
  /** Tell the pod which release it is. */
  readonly isNamed?: boolean
}

/** A page without its state. */
export function pageOn(t: TestContext, { url }: Stage, { sdk, kind, chatId, isNamed = true }: PageOptions) {
  const headers: Record<string, string> = isNamed ? { 'x-fleetline-ai-sdk': sdk.version } : {}
  const socket = () => {
    const made = new WebSocketChatTransport({ url: `${url}/v1/chat/socket`, headers })
    atEnd(t, () => made.close())
    return made
  }
  const transport: ChatTransport<UIMessage> =
    kind === 'http' ? new sdk.DefaultChatTransport({ api: `${url}/v1/chat`, headers }) : socket()
  type Request = Partial<Parameters<typeof transport.sendMessages>[0]>
  const send = async (messages: UIMessage[], more: Request = {}) => {
    const submit = { messageId: undefined, abortSignal: undefined, trigger: 'submit-message' } as const
    return readReply(sdk, await transport.sendMessages({ chatId, messages, ...submit, ...more }))
  }
  return {
    transport,
    send,
    say: (text: string) => send([userMessage(text)]),
    /** `onBegun` is called when the stream is open. */
    resume: async (onBegun: () => void) => {
      const stream = await transport.reconnectToStream({ chatId })
      assert.ok(stream, 'the reply is being written')
      onBegun()
      return readReply(sdk, stream)
    },
  }
}

export function userMessage(text: string, id = `m-${text}`): UIMessage {
  return { id, role: 'user', parts: [{ type: 'text', text }] }
}

/** What a page has of a reply. */
export type PageReply = {
  readonly message: UIMessage | undefined
  readonly errors: readonly unknown[]
  /** The type of the last chunk. */
  readonly last: string | undefined
}

async function readReply(
  { readUIMessageStream }: Sdk,
  stream: ReadableStream<UIMessageChunk>,
): Promise<PageReply> {
  let [message, last]: [UIMessage | undefined, string | undefined] = [undefined, undefined]
  const errors: unknown[] = []
  const seen = new TransformStream<UIMessageChunk, UIMessageChunk>({
    transform: (chunk, controller) => {
      last = chunk.type
      controller.enqueue(chunk)
    },
  })
  const onError = (error: unknown) => errors.push(error)
  for await (message of readUIMessageStream({ stream: stream.pipeThrough(seen), onError }));
  return { message, errors, last }
}

type Shown = Pick<UIMessage, 'id' | 'role' | 'parts' | 'metadata'>
export function shownOf({ id, role, parts, metadata }: Shown): unknown {
  return inNewWords({ id, role, parts, metadata } as UIMessage)
}

export function storedOf(item: Item | undefined): unknown {
  return item && shownOf(item as unknown as Shown)
}

/** The reply is whole, and it is what is stored. */
export function assertStored(
  { message, errors, last }: PageReply,
  item: Item | undefined,
  end = 'finish',
): void {
  assert.deepEqual([errors, last], [[], end])
  assert.deepEqual(message && shownOf(message), storedOf(item))
}
