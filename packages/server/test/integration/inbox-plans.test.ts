// The inbox of a user with 20,000 sessions: each statement reads a page and a day, or the newest 1,000 sessions, whatever else there is.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { INBOX_LIMITS } from '@fleetline/protocol'
import { createInboxReading, type PageRange } from '../../src/inbox/reading.ts'
import type { Transactions } from '../../src/store/database.ts'
import { valueOf } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { explaining, type Plan } from '../support/plan.ts'
import { openDatabase } from '../support/store.ts'

const TENANT = 1
const SESSIONS = 20_000
const A_DAY = 50 // sessions of the user
const ID = `(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid`
const HELLO = `{"parts":[{"type":"text","text":"hello"}]}`

// Every tenth session is the user's. The first one has 20,000 messages, and is as old as its siblings.
const SEED = [
  `insert into fleetline.sessions (tenant, id, head, updated_at)
   select ${TENANT}, ${ID}, case when n = 0 then 20000 else 1 end, date_trunc('day', now()) - (n / ${A_DAY * 10}) * interval '1 day' + (n % ${A_DAY * 10}) * interval '1 s'
     from generate_series(0, ${SESSIONS * 10 - 1}) n`,
  `insert into fleetline.members (tenant, session, user_id, day)
   select tenant, id, case when row_number() over (order by id) % 10 = 1 then 'ada' else 'bob' || (row_number() over (order by id) % 1000) end,
          (updated_at at time zone 'UTC')::date
     from fleetline.sessions`,
  `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
   select now(), ${TENANT}, ${ID}, 1, gen_random_uuid(), 1, 0, 0, 'm', '${HELLO}' from generate_series(1, ${SESSIONS * 10 - 1}, 10) n`,
  `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
   select now(), ${TENANT}, ${ID}, seq, gen_random_uuid(), 1, 0, 0, 'm', '${HELLO}' from generate_series(0, 0) n, generate_series(1, 20000) seq`,
]

test(`the inbox of a user with ${SESSIONS} sessions: buffers bounded, pages complete`, async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  await database.transaction(async (query) => {
    await query('alter table fleetline.members disable trigger set_day')
    for (const text of SEED) await query(text)
    await query('alter table fleetline.members enable trigger set_day')
    await query('analyze fleetline.sessions, fleetline.members, fleetline.messages')
  })
  const plans: Plan[] = []
  const explained: Transactions = {
    transaction: (work, how) =>
      database.transaction(async (query) => {
        const wrapped = explaining(query)
        const value = await work(wrapped.query)
        plans.push(...wrapped.plans)
        return value
      }, how),
  }
  const [real, planned] = [createInboxReading({ database }), createInboxReading({ database: explained })]
  const ada = { tenant: TENANT, user: 'ada', sessions: undefined }
  const cost = async (read: () => Promise<unknown>) => {
    plans.length = 0
    await read()
    return plans.reduce((sum, { buffers }) => sum + buffers, 0)
  }

  const seen: string[] = []
  const range: PageRange = { isArchived: false, after: undefined, limit: 100 }
  for (let after = range.after; ;) {
    const rows = await real.page(ada, { ...range, after })
    seen.push(...rows.map(({ session }) => session))
    if (rows.length < range.limit) break
    after = rows.at(-1)
    if (seen.length % 5_000 === 0) {
      const buffers = await cost(() => planned.page(ada, { ...range, after }))
      assert.ok(buffers < 3_000, `a page in the middle: ${buffers} buffers`)
    }
  }
  const expected = await database.transaction((query) =>
    query<{ session: string }>(
      `select m.session from fleetline.members m join fleetline.sessions s on s.id = m.session
        where m.user_id = 'ada' order by s.updated_at desc, s.id desc`,
    ),
  )
  assert.deepEqual(
    seen,
    valueOf(expected, 'not read').map(({ session }) => session),
  )
  assert.equal(seen.length, SESSIONS)

  const bounds = [
    ['the first page', 2_000, () => planned.page(ada, { ...range, limit: 50 })],
    ['the newest sessions', 6_000, () => planned.newest(ada)],
    [
      'one session of 20,000 messages',
      60,
      () =>
        planned.one({ tenant: TENANT, session: seen.find((id) => id.startsWith('00000000'))!, user: 'ada' }),
    ],
  ] as const
  for (const [what, most, read] of bounds) {
    const buffers = await cost(read)
    assert.ok(buffers > 0 && buffers < most, `${what}: ${buffers} buffers`)
  }
  const newest = await real.newest(ada)
  assert.deepEqual(
    newest.map(({ session }) => session).toSorted(),
    seen.slice(0, INBOX_LIMITS.newest).toSorted(),
  )
  await database.transaction((query) =>
    query(`update fleetline.sessions s set updated_at = date_trunc('day', now()) + random() * interval '1 hour'
             from fleetline.members m where m.session = s.id and m.user_id = 'ada'`),
  )
  const oneDay = await database.transaction((query) =>
    query<{ session: string }>(
      `select m.session from fleetline.members m join fleetline.sessions s on s.id = m.session
        where m.user_id = 'ada' order by s.updated_at desc, s.id desc limit ${INBOX_LIMITS.newest}`,
    ),
  )
  assert.deepEqual(
    (await real.newest(ada)).map(({ session }) => session),
    valueOf(oneDay, 'not read').map(({ session }) => session),
    'all on one day',
  )
})
