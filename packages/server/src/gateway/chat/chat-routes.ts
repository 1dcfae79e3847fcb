// Routes for the transports of the AI SDK (`useChat`): send, resume, stop, load. Failures are plain sentences, because the SDK shows them.
import { z } from 'zod'
import { route, type Route } from '../../door/route.ts'
import { READ, SEND, STOP } from '../caller.ts'
import { stopAckSchema } from '../turn-schemas.ts'
import { whole } from '../query.ts'
import { messageSchema } from '../session-schemas.ts'
import type { ChatOperations } from './chat-operations.ts'
import { chatId, chatSchema } from './chat-request.ts'
import { levelOf, parseLevel, releaseFault, type Release } from './sdk-levels.ts'
import type { Reply } from './reply-streams.ts'

type Deps = { readonly chats: ChatOperations; readonly chatBodyLimitBytes: number }

const params = z.object({ id: chatId })
const headers = z.object({
  'x-fleetline-ai-sdk': z
    .string()
    .refine((text) => releaseFault(text) === undefined, { error: ({ input }) => releaseFault(String(input)) })
    .optional()
    .describe('the release of the AI SDK in the page'),
})
type Headers = z.infer<typeof headers>
const chunk = z.looseObject({ type: z.string() })
const STREAM =
  'The reply as a UI message stream of the AI SDK. It ends only when the turn has ended; otherwise the connection breaks.'
const TOO_LARGE =
  'The request is larger than FLEETLINE_CHAT_BODY_LIMIT_BYTES allows. Raise this setting on every pod, or let the page send only the last message, with prepareSendMessagesRequest.'
/** Of a page that names no release. */
const ASSUMED: Release = [6, 0, 0]

export function chatRoutes({ chats, chatBodyLimitBytes }: Deps): Route[] {
  return [sendRoute(chats, chatBodyLimitBytes), resumeRoute(chats), stopRoute(chats), loadRoute(chats)]
}

function levelIn(given: Headers) {
  return levelOf(parseLevel(given['x-fleetline-ai-sdk'] ?? ''), ASSUMED)
}

function streamed({ headers, body, recheck }: Reply) {
  return { status: 200, headers, body, recheck }
}

function sendRoute(chats: ChatOperations, bodyLimitBytes: number): Route {
  return route({
    method: 'POST',
    path: '/v1/chat',
    summary:
      'Takes the request of `useChat` of the AI SDK: sends the last message, edits the message in `messageId`, or regenerates a reply. Answers with the reply, so a user needs the rights `send` and `read`. A chat that does not exist begins, with the default agent of the tenant. The other messages of the request are ignored: the log is the truth.',
    access: SEND,
    headers,
    body: chatSchema,
    bodyLimitBytes,
    tooLargeText: TOO_LARGE,
    saysFaultsInText: true,
    answers: { 200: { means: STREAM, chunks: chunk } },
    handle: async ({ principal, headers, body }) =>
      streamed(await chats.submit({ principal, level: levelIn(headers) }, body)),
  })
}

function resumeRoute(chats: ChatOperations): Route {
  return route({
    method: 'GET',
    path: '/v1/chat/:id/stream',
    summary: 'Resumes the reply that is being written, from its beginning.',
    access: READ,
    params,
    headers,
    saysFaultsInText: true,
    answers: {
      200: { means: STREAM, chunks: chunk },
      204: { means: 'No reply is being written.', nothing: true },
    },
    handle: async ({ principal, params, headers }) => {
      const reply = await chats.resume({ principal, level: levelIn(headers) }, params.id)
      return reply ? streamed(reply) : { status: 204, body: undefined }
    },
  })
}

function stopRoute(chats: ChatOperations): Route {
  return route({
    method: 'POST',
    path: '/v1/chat/:id/stop',
    summary: 'Stops the reply that is being written. What it has said so far is stored.',
    access: STOP,
    params,
    isBodyOptional: true,
    body: z.object({
      activeStreamId: z.string().optional().describe('the turn to stop; without it, the live one'),
    }),
    saysFaultsInText: true,
    answers: {
      200: {
        means: 'Committed. Or `stopped` is false: this turn is not live any more.',
        json: stopAckSchema,
      },
    },
    handle: async ({ principal, params, body }) => ({
      status: 200,
      body: await chats.stop(principal, params.id, body.activeStreamId),
    }),
  })
}

function loadRoute(chats: ChatOperations): Route {
  return route({
    method: 'GET',
    path: '/v1/chat/:id/messages',
    summary:
      'Loads the last messages of the conversation, for `useChat({ messages })`, without a reply that is still being written. A chat that does not exist has none.',
    access: READ,
    params,
    query: z.object({ limit: whole(1, 500).default(100) }),
    saysFaultsInText: true,
    answers: { 200: { means: 'The messages, in order.', json: z.array(uiMessage) } },
    handle: async ({ principal, params, query }) => ({
      status: 200,
      body: await chats.load(principal, params.id, query.limit),
    }),
  })
}

const uiMessage = z.object({ ...messageSchema.shape, id: z.string() })
