// The socket for the `WebSocketChatTransport` of the AI SDK. One connection carries the replies of all chats of a page. Guarantees:
//   D6  a reply gets its `end` only if its turn has ended. Otherwise the socket is closed, so that the page resumes
//   S9  a reply ends when its caller may not see the session any more
// The client closes the socket if it gets a frame that it does not know: what is sent is what the transport documents. An `abort` ends the
// stream and not the turn: pages send it also when they are left.
import { z } from 'zod'
import type {
  SocketAnswer,
  SocketDialect,
  SocketPeer,
  SocketRoute,
  SocketSide,
} from '../../door/socket-route.ts'
import { socketCommand, socketRoute } from '../../door/socket-route.ts'
import { Rejected, Retry } from '../../errors.ts'
import type { Principal } from '../../identity/principal.ts'
import type { Log } from '../../telemetry/log.ts'
import { READ, SEND } from '../caller.ts'
import { userId } from '../session-schemas.ts'
import type { ChatOperations } from './chat-operations.ts'
import { chatId, chatSchema } from './chat-request.ts'
import { levelOf, parseLevel, releaseFault, type Release } from './sdk-levels.ts'
import type { Reply } from './reply-streams.ts'

type Deps = { readonly chats: ChatOperations; readonly chatBodyLimitBytes: number; readonly log: Log }

/** The first release with this transport. */
const ASSUMED: Release = [7, 0, 135]
const MOST_REPLIES = 32 // of one socket
/** How many aborts may come before the requests that they abort. */
const MOST_ABORTED = 2 * MOST_REPLIES

const dialect: SocketDialect = {
  cid: 'requestId',
  order: 'id',
  errorOf: ({ text }) => ({ type: 'error', errorText: text }),
  tokenIn: ({ headers }) => {
    const given = (headers as Readonly<Record<string, unknown>> | null | undefined)?.['authorization']
    return typeof given === 'string' ? given.replace(/^Bearer /i, '') : undefined
  },
}

/** A text that names no release is ignored. */
const release = z.string().refine((text) => !parseLevel(text) || releaseFault(text) === undefined, {
  error: ({ input }) => releaseFault(String(input)),
})
const headers = z.looseObject({ 'x-fleetline-ai-sdk': release.optional() }).default({})
const requestId = z.string()
const sendFrame = chatSchema.pick({ id: true, trigger: true, messageId: true, messages: true }).extend({
  requestId,
  headers,
  body: z.looseObject({ message: z.unknown().optional(), author: userId.optional() }).default({}),
})
const resumeFrame = z.object({ requestId, id: chatId, headers })
const abortFrame = z.object({ requestId })

const sent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('start'), requestId }),
  z.object({
    type: z.literal('chunk'),
    requestId,
    sequence: z.int(),
    chunk: z.looseObject({ type: z.string() }),
  }),
  z.object({ type: z.literal('end'), requestId }),
  z.object({ type: z.literal('no-active'), requestId }),
  z.object({ type: z.literal('error'), requestId, errorText: z.string() }),
])

export function chatSocket({ chats, chatBodyLimitBytes, log }: Deps): SocketRoute {
  return socketRoute<Streams>({
    path: '/v1/chat/socket',
    summary: 'Carries the chats of a page that uses the WebSocketChatTransport of the AI SDK.',
    dialect,
    frameBytes: chatBodyLimitBytes,
    frames: sent,
    open: (peer) => createStreams(peer, log),
    commands: {
      send: socketCommand({
        summary: 'Sends the last message, edits or regenerates, and starts the reply.',
        access: SEND,
        frame: sendFrame,
        handle: (streams: Streams, { requestId, headers, body, ...request }, principal) => {
          const { message, author } = body
          const reader = readerOf(principal, headers)
          return streams.start(requestId, () => chats.submit(reader, { ...request, message, author }))
        },
      }),
      resume: socketCommand({
        summary: 'Starts the reply that is being written, from its beginning.',
        access: READ,
        frame: resumeFrame,
        handle: (streams: Streams, { requestId, headers, id }, principal) =>
          streams.start(requestId, () => chats.resume(readerOf(principal, headers), id)),
      }),
      abort: socketCommand({
        summary: 'Ends a stream. The reply goes on.',
        access: READ,
        frame: abortFrame,
        handle: async (streams: Streams, { requestId }) => {
          streams.abort(requestId)
          return { frame: { type: 'end' } } // the client ignores it, because it has forgotten the request
        },
      }),
    },
  })
}

function readerOf(principal: Principal, headers: { readonly 'x-fleetline-ai-sdk'?: string | undefined }) {
  return { principal, level: levelOf(parseLevel(headers['x-fleetline-ai-sdk'] ?? ''), ASSUMED) }
}

type Streams = SocketSide & {
  /** Answers a request, then streams its reply. An aborted request gets `end` and no stream. */
  readonly start: (requestId: string, find: () => Promise<Reply | undefined>) => Promise<SocketAnswer>
  /** Aborts a reply, or a request that is still queued behind earlier ones of its chat. */
  readonly abort: (requestId: string) => void
}
type OpenReply = {
  readonly ending: AbortController
  /** Absent before the reply is found. */ recheck?: Reply['recheck']
}

function createStreams(peer: SocketPeer, log: Log): Streams {
  const live = new Map<string, OpenReply>()
  const aborted = new Set<string>() // requests that still wait for earlier ones of their chat, or that are over
  const say = (requestId: string, frame: object, signal = peer.signal) =>
    peer.push({ ...frame, requestId }, { signal })
  const send = async (requestId: string, { body }: Reply, signal: AbortSignal) => {
    let [sequence, isWhole] = [0, false]
    for await (const { chunks, isLast = false } of body({ signal, cut: peer.restart })) {
      for (const chunk of chunks) {
        await say(requestId, { type: 'chunk', sequence, chunk }, signal)
        sequence += 1
      }
      isWhole ||= isLast
    }
    if (signal.aborted) return
    if (isWhole) await say(requestId, { type: 'end' })
    else peer.restart()
  }
  const run = async (requestId: string, reply: Reply, { ending }: OpenReply) => {
    const release = peer.hold()
    try {
      await send(requestId, reply, AbortSignal.any([peer.signal, ending.signal]))
    } catch (error) {
      log.error('stream failed', { service: 'chat', error })
      peer.restart()
    } finally {
      live.delete(requestId)
      release()
    }
  }
  return {
    start: async (requestId, find) => {
      if (live.has(requestId)) throw new Rejected('conflict', 'This requestId is in use.')
      if (live.size >= MOST_REPLIES)
        throw new Rejected(
          'too_many',
          `A socket carries ${MOST_REPLIES} replies at most. Wait for one to end, or open another socket.`,
        )
      const one: OpenReply = { ending: new AbortController() }
      live.set(requestId, one)
      if (aborted.delete(requestId)) one.ending.abort()
      const reply = await find().catch((error: unknown) => {
        live.delete(requestId)
        throw error
      })
      if (reply) {
        one.recheck = reply.recheck
        const type = one.ending.signal.aborted ? 'end' : 'start'
        return { frame: { type }, onAnswered: () => void run(requestId, reply, one) }
      }
      live.delete(requestId)
      return { frame: { type: 'no-active' } }
    },
    abort: (requestId) => {
      const one = live.get(requestId)
      if (one) return one.ending.abort()
      aborted.add(requestId)
      if (aborted.size > MOST_ABORTED) aborted.delete(aborted.values().next().value!)
    },
    recheck: async () => {
      const refuse = async ([requestId, { ending, recheck }]: readonly [string, OpenReply]) => {
        const refused: unknown = await recheck?.().then(
          () => undefined,
          (error: unknown) => error,
        )
        if (refused === undefined) return
        if (!(refused instanceof Rejected))
          throw new Retry('unavailable', 'The caller cannot be checked now', { cause: refused })
        ending.abort()
        void say(requestId, { type: 'error', errorText: refused.message }) // frames wait for this check
      }
      await Promise.all(Array.from(live, refuse))
    },
  }
}
