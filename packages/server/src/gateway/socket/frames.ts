// Schemas of the frames of the socket: those that clients send, and all that a pod sends.
import { ERROR_CODES, INBOX_SHOWS, JOIN_LIMITS, PAGE_LIMITS, type ErrorCode } from '@fleetline/protocol'
import { z } from 'zod'
import { refusalSchema } from '../../door/refusal.ts'
import { cursorSchema } from '../cursor.ts'
import { inboxChangesSchema, readAckSchema } from '../inbox-schemas.ts'
import {
  ackSchema,
  editSchema,
  messageId,
  messageSchema,
  regenerateSchema,
  SESSION_FRAMES,
  sessionSchema,
  userId,
} from '../session-schemas.ts'
import { stopAckSchema, stopSchema } from '../turn-schemas.ts'

const session = z.string().describe('an id or an alias')
const seq = z.int().min(0).max(PAGE_LIMITS.seq)
const user = userId
  .optional()
  .describe('the user. Only for callers with a key, which must name it; a token names its user')

export const joinSchema = z
  .object({
    session,
    cursor: cursorSchema('must be the cursor of a frame of this session')
      .nullish()
      .describe('where to start: after the frame that had this `cursor`. null is the same as leaving it out'),
    after: seq
      .nullable()
      .optional()
      .describe('where to start, without a cursor: after this seq. null is the same as leaving it out'),
    limit: z
      .int()
      .min(1)
      .max(JOIN_LIMITS.most)
      .default(JOIN_LIMITS.tail)
      .describe('where to start otherwise: how many of the last messages come first'),
    epoch: z
      .int()
      .min(1)
      .max(PAGE_LIMITS.seq)
      .optional()
      .describe('with after: also send how the turns from this epoch on have ended'),
  })
  .refine(({ cursor, after }) => cursor == null || after == null, 'send cursor or after, not both')
export type Join = z.infer<typeof joinSchema>

export const sendFrameSchema = z.object({
  session,
  id: z.never('put it into message.id').optional(),
  message: messageSchema
    .extend({ id: messageId })
    .describe(
      'the message: its `id`, which the client chooses, `parts`, and, if needed, `role` and `metadata`',
    ),
  author: userId.optional().describe('the id of the author. Ignored if a user sends the message'),
  ifHead: z
    .int()
    .min(0)
    .optional()
    .describe('append the message only if this is the last seq of the session'),
  reply: z.boolean().optional().describe('false: the agent does not reply'),
})

export const stopFrameSchema = z.object({
  session,
  turn: stopSchema.shape.turn.describe('the id of the turn'),
  epoch: stopSchema.shape.epoch.describe('the epoch of the turn'),
})

export const regenerateFrameSchema = regenerateSchema.extend({ session })

export const editFrameSchema = editSchema.extend({
  session,
  message: messageId.describe('the id of the message to replace'),
  parts: editSchema.shape.parts.describe('the parts of the new message'),
  metadata: editSchema.shape.metadata.describe('the metadata of the new message'),
})

export const readFrameSchema = z.object({
  session,
  seq: seq.describe('the last seq that the user has read'),
  user,
})

export const leaveSchema = z.object({ session })

export const inboxOnSchema = z.object({
  on: z.boolean().describe('true: follow it; false: do not follow it any more'),
  show: z.enum(INBOX_SHOWS).default('all').describe('which sessions are in the first frame'),
  limit: z
    .int()
    .min(1)
    .max(PAGE_LIMITS.items)
    .default(50)
    .describe('how many sessions are in the first frame'),
  user,
})
export type InboxOn = z.infer<typeof inboxOnSchema>

const cid = z.string()
const code = z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]])
const cursor = z.string()
const { messages, gap, turn, chunks, erased } = SESSION_FRAMES

/** Every frame that answers a command, or follows it. */
export const sentSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('joined'), cid, session: z.string(), facts: sessionSchema, from: z.int() }),
  messages.extend({ cursor }),
  gap.extend({ cursor }),
  turn.extend({ cursor }),
  chunks.extend({ cursor }),
  erased.extend({ cursor }),
  inboxChangesSchema,
  z.object({ type: z.literal('left'), session: z.string().nullable(), code, text: z.string() }),
  z.object({
    type: z.literal('ack'),
    cid,
    ...ackSchema.partial().shape,
    ...stopAckSchema.partial().shape,
    ...readAckSchema.partial().shape,
  }),
  z.object({ type: z.literal('error'), cid: cid.optional(), ...refusalSchema.shape.error.shape }),
])
