// How far members have read. Cursors are read and moved under the lock of their session, in the batches of append.ts.
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import type { CursorMove, MarkRead, ReadCursor } from './items.ts'

const FIND = `
  select k.n::int as n, m.read, m.seen_epoch as "seenEpoch"
    from unnest($1::int[], $2::uuid[], $3::text[]) with ordinality k(tenant, session, user_id, n)
    join fleetline.members m on m.tenant = k.tenant and m.session = k.session and m.user_id = k.user_id`

// The version counts the moves, so that a device can tell which of two items of the inbox is newer.
const MOVE = `
  update fleetline.members m
     set read = greatest(m.read, v.read), seen_epoch = greatest(m.seen_epoch, v.seen_epoch), read_version = m.read_version + 1
    from unnest($1::int[], $2::uuid[], $3::text[], $4::int[], $5::int[]) v(tenant, session, user_id, read, seen_epoch)
   where m.tenant = v.tenant and m.session = v.session and m.user_id = v.user_id`

/** By the indexes of the reads: the cursors of their members. */
export async function findCursors(
  query: Query,
  reads: ReadonlyMap<number, MarkRead>,
): Promise<ReadonlyMap<number, ReadCursor>> {
  if (reads.size === 0) return new Map()
  const [places, list] = [[...reads.keys()], [...reads.values()]]
  const rows = await query<ReadCursor & { readonly n: number }>(
    FIND,
    columnsOf(list, 'tenant', 'session', 'user'),
  )
  return new Map(rows.map(({ n, ...cursor }) => [places[n - 1]!, cursor]))
}

export async function moveCursors(query: Query, cursors: readonly CursorMove[]): Promise<void> {
  if (cursors.length === 0) return
  await query(MOVE, columnsOf(cursors, 'tenant', 'session', 'user', 'read', 'seenEpoch'))
}
