// Schemas of sessions and messages in requests and answers. Requests are parsed here and trusted afterwards.
import {
  ITEM_STATUSES,
  jsonFault,
  MESSAGE_ID,
  MESSAGE_LIMITS,
  messageFault,
  PAGE_LIMITS,
  SESSION_ALIAS,
  SESSION_LIMITS,
  SESSION_STATES,
  type Message,
} from '@fleetline/protocol'
import { z } from 'zod'
import { Rejected } from '../errors.ts'
import { agentName } from './agent-schemas.ts'
import { cursorSchema } from './cursor.ts'
import { limit, whole } from './query.ts'
import { seqRangesSchema, turnSchema } from './turn-schemas.ts'

/** One line that PostgreSQL can store and a terminal can show. */
function line(maxLength: number) {
  return z
    .string()
    .min(1)
    .max(maxLength)
    .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), 'holds a control character')
}

export const userId = line(SESSION_LIMITS.userIdLength)

const title = line(SESSION_LIMITS.titleLength)
const fieldsSchema = z.record(z.string(), z.unknown())
const sessionMetadata = fieldsSchema.superRefine((value, context) => {
  const fault = jsonFault(value)
  const isTooLarge = Buffer.byteLength(JSON.stringify(value)) > SESSION_LIMITS.metadataBytes
  const message = fault ?? (isTooLarge ? `over ${SESSION_LIMITS.metadataBytes} bytes of JSON` : undefined)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
})

export const sessionParams = z.object({ session: z.string() })
export const memberParams = z.object({ session: z.string(), user: userId })

export const newSessionSchema = z.object({
  alias: z.string().regex(SESSION_ALIAS, '1 to 128 of A-Z a-z 0-9 . _ : @ -, no id').nullable().default(null),
  title: title.nullable().default(null),
  metadata: sessionMetadata.nullable().default(null),
  agent: agentName.nullable().default(null),
  members: z.array(userId).max(SESSION_LIMITS.members).default([]),
})

/** What is left out stays. */
export const sessionChangeSchema = z
  .object({
    title: title.nullable().optional(),
    metadata: sessionMetadata.nullable().optional(),
    archived: z.boolean().optional(),
  })
  .refine(
    (change) => Object.values(change).some((value) => value !== undefined),
    'give title, metadata or archived',
  )

export const sessionSchema = z.object({
  session: z.string(),
  alias: z.string().nullable(),
  title: z.string().nullable(),
  metadata: fieldsSchema.nullable(),
  archived: z.boolean(),
  head: z.int(),
  agent: z.string().nullable(),
  state: z.enum(SESSION_STATES),
  epoch: z.int(),
  turn: z.string().nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
})

export const sessionsSchema = z.object({ sessions: z.array(sessionSchema) })

export const memberSchema = z.object({ user: z.string() })
export const membersSchema = z.object({ members: z.array(memberSchema) })

export const messageSchema = z.object({
  id: z.string().regex(MESSAGE_ID, '1 to 64 of A-Z a-z 0-9 _ -').optional(),
  role: z.enum(['user', 'assistant', 'system']).default('user'),
  parts: z
    .array(z.looseObject({ type: z.string().min(1) }))
    .min(1)
    .max(MESSAGE_LIMITS.parts),
  metadata: fieldsSchema.optional(),
})

/** Either a message, or a text. The text becomes a user's message with one text part. */
export const sendSchema = z
  .object({
    message: messageSchema.optional(),
    text: z.string().min(1).optional(),
    author: userId.optional(),
    ifHead: z.int().min(0).optional(),
    reply: z.boolean().optional(),
  })
  .refine(({ message, text }) => (message === undefined) !== (text === undefined), 'takes message or text')

export type Send = z.infer<typeof sendSchema>

const epoch = z
  .int()
  .min(0)
  .max(PAGE_LIMITS.seq - 2)
  .describe('the epoch of the session, as the caller knows it')
const ifHead = z
  .int()
  .min(0)
  .optional()
  .describe('the last seq that the caller knows: refused with `stale` if there is a later one')

export const regenerateSchema = z.object({
  epoch,
  message: messageSchema.shape.id.describe(
    'the id of the reply, or of the message of a user whose reply is regenerated; default: the live reply; otherwise the last reply, or the last message that asks for one, whichever is later',
  ),
  ifHead,
})
export type Regenerate = z.infer<typeof regenerateSchema>
export const regenerateAckSchema = z.object({ turn: z.string(), epoch: z.int(), deduped: z.boolean() })

export const editSchema = z.object({
  epoch,
  id: messageSchema.shape.id.describe('the id of the new message'),
  parts: messageSchema.shape.parts,
  metadata: fieldsSchema.optional(),
  author: userId.optional().describe('the id of the author. Ignored if a user edits the message'),
  ifHead,
})
export type Edit = z.infer<typeof editSchema>

export const ackSchema = z.object({
  id: z.string(),
  seq: z.int(),
  deduped: z.boolean(),
  turn: z.string().optional(),
  epoch: z.int().optional(),
})

export const messageId = z.string().regex(MESSAGE_ID, '1 to 64 of A-Z a-z 0-9 _ -')

const seq = whole(0, PAGE_LIMITS.seq)

export const sessionsQuery = z.object({ before: z.string().optional(), limit })

/** Without `after` and `before`, the query is for the last messages. */
export const pageQuery = z
  .object({ after: seq.optional(), before: seq.optional(), limit })
  .refine(({ after, before }) => after === undefined || before === undefined, 'takes after or before')

/** `epoch` comes from an ack. The stream then says how that turn ends, even if it has already ended. */
export const eventsQuery = z.object({ after: seq.default(0), epoch: whole(1, PAGE_LIMITS.seq).optional() })

/** A browser sends this header when it reconnects. It takes precedence over the query, which is from the first request. */
export const eventsHeaders = z.object({
  'last-event-id': cursorSchema('must be the id of an event').optional(),
})

const itemSchema = z.object({
  seq: z.int(),
  id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  parts: z.array(z.looseObject({ type: z.string() })),
  metadata: fieldsSchema.optional(),
  author: z.object({ kind: z.enum(['user', 'agent', 'service']), id: z.string().optional() }),
  at: z.string(),
  turn: z.string().optional(),
  answers: z.int().optional(),
  status: z.enum(ITEM_STATUSES).optional(),
  replaces: seqRangesSchema.optional().describe('the seqs of the messages in whose place this one stands'),
  erased: z.literal(true).optional().describe('the message was erased'),
})

/** A line of an export. */
export const exportLineSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('session'),
    format: z.int().describe('the format of the messages'),
    exportedAt: z.string(),
    session: sessionSchema,
    members: z.array(z.string()),
  }),
  z.object({ type: z.literal('summary'), through: z.int(), text: z.string() }),
  z.object({ type: z.literal('message'), ...itemSchema.shape }),
  z.object({ type: z.literal('end'), session: z.string(), messages: z.int() }),
  z.object({ type: z.literal('cut-off'), code: z.string(), text: z.string() }),
])

export const pageSchema = z.object({ items: z.array(itemSchema), head: z.int() })

/** The frames of a session, by their type. */
export const SESSION_FRAMES = {
  messages: z.object({ type: z.literal('messages'), session: z.string(), ...pageSchema.shape }),
  gap: z.object({
    type: z.literal('gap'),
    session: z.string(),
    reason: z.literal('diverged'),
    from: z.int(),
    to: z.int(),
  }),
  turn: z.object({ type: z.literal('turn'), session: z.string(), turn: turnSchema }),
  chunks: z.object({
    type: z.literal('chunks'),
    session: z.string(),
    turn: z.string(),
    attempt: z.int(),
    index: z.int(),
    count: z.int(),
    chunks: z.array(z.looseObject({ type: z.string() })),
  }),
  erased: z.object({ type: z.literal('erased'), session: z.string(), seqs: z.array(z.int()) }),
}
const { messages, gap, turn, chunks, erased } = SESSION_FRAMES

export const frameSchema = z.discriminatedUnion('type', [
  messages,
  gap,
  turn,
  chunks,
  erased,
  z.object({ type: z.literal('ended'), code: z.string(), text: z.string() }),
])

/** Completes the message that was sent. Rejects a message that cannot be stored before it joins a batch (S15). */
export function messageOf({ message, text }: Send, mintId: () => string, part: string): Message {
  const { id, role, parts, metadata } = message ?? {
    id: undefined,
    role: 'user' as const,
    parts: [{ type: 'text', text }],
    metadata: undefined,
  }
  const content = { parts, ...(metadata === undefined ? {} : { metadata }) }
  const fault = messageFault(content)
  if (fault !== undefined) throw new Rejected('invalid', `${part}.message: ${fault}`)
  if (role === 'user' && parts.every(isBlank))
    throw new Rejected('invalid', `${part}.message: says nothing: give a part some text`)
  atMost(`${part}.message`, content, MESSAGE_LIMITS.bytes)
  atMost(`${part}.message.metadata`, metadata ?? {}, MESSAGE_LIMITS.metadataBytes)
  return { id: id ?? mintId(), role, ...content }
}

function isBlank({ type, text }: Message['parts'][number]): boolean {
  return type === 'text' && (typeof text !== 'string' || text.trim() === '')
}

function atMost(name: string, value: unknown, bytes: number): void {
  if (Buffer.byteLength(JSON.stringify(value)) > bytes)
    throw new Rejected('too_large', `${name}: over ${bytes} bytes of JSON`)
}
