// The read path of sessions. One statement reads a page of a session's log, so head and items are from the same moment. It
// reads on the primary: every acknowledged message is found here (L1), and nothing that is not committed (L9).
import { formatId, jsonEntries, PAGE_LIMITS, type Item, type Page } from '@fleetline/protocol'
import { Bug } from '../errors.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import { AUTHOR_KINDS, ROLES, STATUSES } from './column-codes.ts'
import { parseBody } from './message-format.ts'
import { parseRanges } from './seq-ranges.ts'
import type { SessionKey } from './items.ts'

/** The items after a seq, or the last ones before it. */
export type Range = ({ readonly after: number } | { readonly before: number }) & {
  readonly limit: number
  readonly maxBytes?: number
}

/** A page with the state of the conversation at the same moment, and roughly what its items take in memory. */
export type LogPage = Page & {
  readonly epoch: number
  readonly turn: string | null
  readonly version: number
  /** How many batches of its messages were erased. */
  readonly eraseCount: number
  readonly bytes: number
}

/** Messages that were erased, up to a batch. */
export type ErasedSeqs = { readonly seqs: readonly number[]; readonly upto: number }

export type Replay = {
  /** Undefined: there is no such session, or it was erased. */
  readonly read: (key: SessionKey, range: Range) => Promise<LogPage | undefined>
  /** The same for the messages that belong to the conversation: without those in whose place others stand. `also`: neither those in these
   *  ranges, as PostgreSQL writes them. */
  readonly readConversation: (
    key: SessionKey,
    range: Range & { readonly also?: string | null },
  ) => Promise<LogPage | undefined>
  /** The erased messages of the batches after `after` up to `to`, or of the first of them. */
  readonly readErased: (key: SessionKey, range: { after: number; to: number }) => Promise<ErasedSeqs>
}

// Unpacks only the bodies of the page: 100 of the largest would be 25 MiB.
const pageOf = (beyond: '>' | '<', order: 'asc' | 'desc', { gone, where } = { gone: '', where: '' }) => `
  with s as materialized (
    select head, epoch, turn, version, erase_count ${gone} from fleetline.sessions
     where tenant = $1 and id = $2 and erased_at is null)
  select s.head, s.epoch, s.turn as live, s.version, s.erase_count as "eraseCount", p.seq, p.id, p.role, p.author_kind, p.author, p.at, p.format, p.body::text, p.turn, p.answers, p.status, p.erased, p.replaces::text
    from s left join lateral (
      select *, sum(bytes) over (order by seq ${order}) - bytes as bytes_before from (
        select seq, id, role, author_kind, author, at, format, body, bytes, turn, answers, status, erased, replaces from fleetline.messages
         where tenant = $1 and session = $2 and seq ${beyond} $3 ${where} order by seq ${order} limit $4) m
    ) p on p.bytes_before < $5
   order by p.seq`
const AFTER = pageOf('>', 'asc')
const BEFORE = pageOf('<', 'desc')
// The read walks over what was replaced, however much that is.
const EFFECTIVE = { gone: ', replaced + $6::int4multirange as gone', where: 'and not seq <@ s.gone' }
const EFFECTIVE_AFTER = pageOf('>', 'asc', EFFECTIVE)
const EFFECTIVE_BEFORE = pageOf('<', 'desc', EFFECTIVE)

// A batch has at most 500 messages, so these rows have at least one whole batch.
const ERASED_ROWS = 1_000
export const ERASED_SEQS = `
  select seq, batch from fleetline.erased_messages
   where tenant = $1 and session = $2 and batch > $3 and batch <= $4 order by batch limit ${ERASED_ROWS}`
type ErasedRow = { readonly seq: number; readonly batch: number }

type ReplayRow = {
  readonly head: number
  readonly epoch: number
  readonly live: string | null
  readonly version: number
  readonly eraseCount: number
} & (
  | { readonly seq: null }
  | {
      readonly seq: number
      readonly id: string
      readonly role: number
      readonly author_kind: number
      readonly author: string | null
      readonly at: Date
      readonly format: number
      readonly body: string
      readonly turn: string | null
      readonly answers: number | null
      readonly status: number | null
      readonly erased: boolean
      readonly replaces: string | null
    }
)

const [ITEM_BYTES, ENTRY_BYTES] = [400, 16] // besides the text; an entry costs about 64, and follow.ts multiplies the sum by 4

type Deps = { readonly database: Transactions; readonly cell: number }

export function createReplay({ database, cell }: Deps): Replay {
  const readPage = async (
    { tenant, session }: SessionKey,
    range: Range,
    [text, ...more]: readonly [string, ...string[]],
  ) => {
    const { limit, maxBytes = PAGE_LIMITS.bytes } = range
    const seq = 'after' in range ? range.after : range.before
    const values = [tenant, session, seq, limit, maxBytes, ...more]
    const outcome = await database.transaction((query) => query<ReplayRow>(text, values), { access: 'read' })
    const rows = valueOf(outcome, 'The session cannot be read')
    if (!rows[0]) return undefined
    const { head, epoch, live, version, eraseCount } = rows[0]
    const bytes = rows.reduce((sum, row) => sum + (row.seq === null ? 0 : bytesOf(row.body)), 0)
    const items = rows.flatMap((row) => itemOf(row, cell, session))
    return { items, head, epoch, turn: live, version, eraseCount, bytes }
  }
  return {
    read: (key, range) => readPage(key, range, 'after' in range ? [AFTER] : [BEFORE]),
    readConversation: (key, { also = null, ...range }) =>
      readPage(
        key,
        range,
        'after' in range ? [EFFECTIVE_AFTER, also ?? '{}'] : [EFFECTIVE_BEFORE, also ?? '{}'],
      ),
    readErased: async ({ tenant, session }, { after, to }) => {
      const outcome = await database.transaction(
        (query) => query<ErasedRow>(ERASED_SEQS, [tenant, session, after, to]),
        { access: 'read' },
      )
      const rows = valueOf(outcome, 'The session cannot be read')
      const upto = rows.length < ERASED_ROWS ? to : rows.at(-1)!.batch - 1
      return { seqs: rows.filter(({ batch }) => batch <= upto).map(({ seq }) => seq), upto }
    },
  }
}

function bytesOf(body: string): number {
  return ITEM_BYTES + body.length + ENTRY_BYTES * jsonEntries(body)
}

function itemOf(row: ReplayRow, cell: number, session: string): Item[] {
  if (row.seq === null) return []
  const { seq, id, author, at, turn, answers } = row
  const [role, kind] = [ROLES[row.role], AUTHOR_KINDS[row.author_kind]]
  const status = row.status === null ? undefined : STATUSES[row.status]
  if (!role || !kind || (row.status !== null && !status))
    throw new Bug('A message is stored with a role, an author or a status that this release does not know')
  return [
    {
      seq,
      id,
      role,
      ...parseBody(row.format, row.body, `Message ${seq} of ${formatId('session', cell, session)}`),
      author: { kind, ...(author === null ? {} : { id: author }) },
      at: at.toISOString(),
      ...(turn === null ? {} : { turn: formatId('turn', cell, turn) }),
      ...(answers === null ? {} : { answers }),
      ...(status === undefined ? {} : { status }),
      ...(row.replaces !== null && { replaces: parseRanges(row.replaces) }),
      ...(row.erased && { erased: true }),
    },
  ]
}
