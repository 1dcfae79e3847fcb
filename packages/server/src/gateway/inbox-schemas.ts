// Schemas of the inbox in requests and answers.
import { ATTENTIONS, INBOX_SHOWS, PAGE_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'
import { parsePlace, type InboxPlace } from '../inbox/pages.ts'
import { limit } from './query.ts'
import { userId } from './session-schemas.ts'

const user = userId.optional().describe('whose inbox; only for callers with a key, which must name it')
const show = z
  .enum(INBOX_SHOWS)
  .default('all')
  .describe(
    '`all`: all but archived ones. `unread`, `attention`: only of the newest 1,000 that are not archived',
  )

const place = z.string().transform((text, context): InboxPlace => {
  const place = parsePlace(text)
  if (!place) context.addIssue({ code: 'custom', message: 'must be the `next` of a page' })
  return place ?? z.NEVER
})

export const inboxQuery = z.object({
  show,
  cursor: place.optional().describe('the `next` of the page before'),
  limit,
  user,
})
export const inboxEventsQuery = z.object({
  show: show.describe(
    'the part in the first event. Later events have any session that changes. When a session is archived, it is sent once with `archived: true`. Later changes of archived sessions are not sent, not even with `show=archived`: request that list again. Only un-archiving and removals are sent',
  ),
  limit,
  user,
})

const itemSchema = z.object({
  session: z.string(),
  alias: z.string().nullable(),
  title: z.string().nullable(),
  agent: z.string().nullable(),
  archived: z.boolean(),
  head: z.int(),
  read: z.int(),
  unread: z.int(),
  preview: z
    .object({ seq: z.int(), role: z.enum(['user', 'assistant', 'system']), text: z.string() })
    .nullable(),
  attention: z.enum(ATTENTIONS).nullable(),
  turn: z.object({ id: z.string(), since: z.string() }).nullable(),
  updatedAt: z.string(),
  rev: z.int(),
})
const totals = { unreadTotal: z.int(), attentionTotal: z.int() }

export const inboxSchema = z.object({ items: z.array(itemSchema), next: z.string().nullable(), ...totals })

export const inboxChangesSchema = z.object({
  type: z.literal('inbox'),
  revision: z.int(),
  reset: z.boolean(),
  items: z.array(itemSchema),
  removed: z.array(z.object({ session: z.string(), rev: z.int() })),
  next: z.string().nullable().optional(),
  ...totals,
})
export const inboxFrameSchema = z.discriminatedUnion('type', [
  inboxChangesSchema,
  z.object({ type: z.literal('ended'), code: z.string(), text: z.string() }),
])

export const readSchema = z.object({
  seq: z.int().min(0).max(PAGE_LIMITS.seq).describe('the last seq that the user has read'),
  user,
})
export const readAckSchema = z.object({ read: z.int(), unread: z.int() })
