// What a request of the AI SDK asks for. It carries the whole conversation as the page shows it. One message is taken; the rest is in the log,
// which is the truth. Pure.
//
//   trigger              the message named by `messageId`,       becomes
//                        or without one the last message, is
//   submit-message       a user's                                a send; an edit, if `messageId` names it
//   submit-message       an assistant's                          a refusal: approvals and outputs of client tools
//   regenerate-message   any, or only its id is known            a regenerate
import { z } from 'zod'
import { parserOf } from '../../door/route.ts'
import { Rejected } from '../../errors.ts'
import { messageId, messageSchema, userId } from '../session-schemas.ts'

const MOST_MESSAGES = 10_000

export const chatId = z
  .string()
  .min(1)
  .max(256)
  .describe('the id of the chat: of your choice, or the id or alias of a session')

export const chatSchema = z.object({
  id: chatId,
  trigger: z.enum(['submit-message', 'regenerate-message']).default('submit-message'),
  messageId: messageId.optional(),
  message: z.unknown().optional().describe('the message, if the page sends only one'),
  messages: z
    .array(z.unknown())
    .max(MOST_MESSAGES)
    .optional()
    .describe('the conversation as the page shows it: one message is used'),
  author: userId.optional().describe('the id of the author. Ignored if a user sends the message'),
})
export type ChatRequest = z.infer<typeof chatSchema>

const userMessage = messageSchema.extend({ id: messageId, role: z.literal('user') })
export type UserMessage = z.infer<typeof userMessage>

export type ChatWish =
  | { readonly type: 'send'; readonly message: UserMessage }
  | { readonly type: 'edit'; readonly message: UserMessage }
  /** `asked`: the message of a user that is to be answered anew, as the page has it. */
  | { readonly type: 'regenerate'; readonly message?: string; readonly asked?: UserMessage }

export function wantedBy({ trigger, messageId: named, message, messages = [] }: ChatRequest): ChatWish {
  const all = message === undefined ? messages : [...messages, message]
  const at = named === undefined ? all.length - 1 : all.findLastIndex((one) => fieldOf(one, 'id') === named)
  const taken = all[at]
  const part = message !== undefined && at === all.length - 1 ? 'body.message' : `body.messages.${at}`
  if (trigger === 'regenerate-message') {
    const id = named ?? fieldOf(taken, 'id')
    return {
      type: 'regenerate',
      ...(typeof id === 'string' && { message: id }),
      ...(fieldOf(taken, 'role') === 'user' && { asked: parsed(taken, part) }),
    }
  }
  if (taken === undefined)
    throw new Rejected(
      'invalid',
      named === undefined
        ? 'There is no message to send.'
        : `messageId is ${named}, but the request has no such message. Send it in messages or message.`,
    )
  if (fieldOf(taken, 'role') === 'assistant')
    throw new Rejected(
      'invalid',
      'The last message has the role assistant. Approvals of tool calls and outputs of tools that run in the page are not supported yet. Send a message with the role user.',
    )
  return { type: named === undefined ? 'send' : 'edit', message: parsed(taken, part) }
}

function parsed(message: unknown, part: string): UserMessage {
  const result = parserOf(userMessage, part)(message)
  if (result.error) throw result.error
  return result.value
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}
