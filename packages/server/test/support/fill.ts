// Stores many messages by SQL, which takes less time than sending them. Pods find them like messages of another pod, without a hint.
import pg from 'pg'
import { parseId } from '@fleetline/protocol'

type Fill = {
  readonly count: number
  /** The length of each text. */
  readonly length: number
  /** All sessions, unless it names one. */
  readonly session?: string
}

/** Appends messages with the id `n` of their seq. */
export async function fill(url: string, { count, length, session }: Fill): Promise<void> {
  const db = new pg.Client(url)
  await db.connect()
  try {
    await db.query(
      `with filled as (
         insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
         select now(), tenant, id, n, gen_random_uuid(), n, 0, 0, n::text,
                jsonb_build_object('parts', jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('x', $2))))
           from fleetline.sessions, generate_series(head + 1, head + $1) n
          where $3::uuid is null or id = $3)
       update fleetline.sessions set head = head + $1 where $3::uuid is null or id = $3`,
      [count, length, session === undefined ? null : parseId('session', session)!.uuid],
    )
  } finally {
    await db.end()
  }
}
