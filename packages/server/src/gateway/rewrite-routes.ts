// Routes that change a conversation: a reply is written anew, a message of a user is edited.
import { z } from 'zod'
import { route, type Route } from '../door/route.ts'
import { SEND } from './caller.ts'
import type { Operations } from './operations.ts'
import {
  ackSchema,
  editSchema,
  messageId,
  regenerateAckSchema,
  regenerateSchema,
  sessionParams,
} from './session-schemas.ts'

type Deps = { readonly operations: Pick<Operations, 'regenerate' | 'edit'> }

export function rewriteRoutes({ operations }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/sessions/:session/regenerate',
      summary:
        'Regenerates a reply: the one in `message`, or that to the message of a user in `message`. A live turn is stopped, and what it has said is discarded. When the new reply is stored, it replaces the old one and the messages after it; the log keeps them. A request with the same epoch and message gets the same response.',
      access: SEND,
      params: sessionParams,
      body: regenerateSchema,
      answers: { 200: { means: 'Committed: this turn writes the reply.', json: regenerateAckSchema } },
      handle: async ({ principal, params, body }) => ({
        status: 200,
        body: await operations.regenerate({ principal, part: 'body', session: params.session }, body),
      }),
    }),
    route({
      method: 'PUT',
      path: '/v1/sessions/:session/messages/:message',
      summary:
        'Edits a message of a user: a new message replaces it and all messages after it, except replies to earlier messages; the log keeps them. A live turn is stopped, what it has said is discarded, and a turn answers the new message. A user edits only its own messages. A request with the same epoch, ids and content gets the same response.',
      access: SEND,
      params: z.object({ session: z.string(), message: messageId }),
      body: editSchema,
      answers: { 200: { means: 'Committed: the new message has this id and this seq.', json: ackSchema } },
      handle: async ({ principal, params: { session, message }, body }) => ({
        status: 200,
        body: await operations.edit({ principal, part: 'body', session }, message, body),
      }),
    }),
  ]
}
