// S32: the audit log on PostgreSQL. Changes are made over HTTP, by methods of a pod and by commands, and read as operators read
// them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SignJWT } from 'jose'
import { take } from '../../src/fleet/pods.ts'
import type { Caller } from '../../src/identity/actor.ts'
import { createAudit, type AuditEntry, type AuditFilter } from '../../src/identity/audit.ts'
import { identityDuties } from '../../src/identity/duties.ts'
import { createRefusals } from '../../src/identity/refused-requests.ts'
import { AUDIT } from '../../src/cli/audit.ts'
import { KEYS } from '../../src/cli/keys.ts'
import { valueOf, type Query, type Transactions } from '../../src/store/database.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { auditedPod, CHANGED } from '../support/audit.ts'
import { manualClock } from '../support/clock.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { explaining, type Plan } from '../support/plan.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'
import { SECRET } from '../support/tokens.ts'

test('S32: each change leaves one row: who, from where, what and whose; a repeat that changes nothing leaves none', async (t) => {
  const { pod, url, changes, secrets, newRows, rowsAsText } = await auditedPod(t)
  for (const { action, by, ask, target, repeat } of changes) {
    const { status, body } = await ask()
    assert.ok(status < 300, `${action}: ${status} ${JSON.stringify(body)}`)
    secrets.push(
      ...Object.values(body)
        .map(String)
        .filter((value) => /^fl_live_|^whsec_|\..*\./.test(value)),
    )
    const expected = {
      tenant: action === 'tenant.create' ? 'acme' : 'dev',
      actor: by,
      via: null,
      address: '127.0.0.1',
      action,
      target: target ?? body['id'],
      outcome: 'done',
      reason: null,
      times: 1,
    }
    assert.deepEqual(await newRows(), [expected])
    if (repeat === undefined) continue
    assert.equal((await ask()).status, repeat, `${action} again`)
    assert.deepEqual(await newRows(), [], `${action} again`)
  }
  await pod.tenants.create('beta')
  const { key } = await pod.keys.create({ name: 'on-call' })
  await typing(KEYS, 'tenants')({ flags: { databaseUrl: url } }, 'create', ['gamma'])
  const role = decodeURIComponent(new URL(url).username)
  const [byCommand, ofOperator, byPod] = await newRows()
  assert.deepEqual([byCommand?.actor, byCommand?.address], [`command ${role}`, null])
  assert.deepEqual([byPod?.actor, byPod?.tenant, byPod?.address], ['pod', 'beta', null])
  assert.deepEqual([ofOperator?.action, ofOperator?.tenant], ['key.create', null])
  const text = await rowsAsText()
  for (const secret of [...secrets, key].flatMap((one) => [one, ...one.split(/[_.]/).filter(isLong)]))
    assert.ok(!text.includes(secret), 'no row has a key, a token or a secret, nor a part of one')
})

test('S32: a change without its row, or a row without its change, is never committed', async (t) => {
  const { changes, run, newRows, storedRows } = await auditedPod(t)
  const before = await storedRows()
  await run((query) => query(REFUSING))
  await run((query) =>
    query('create trigger no_row before insert on fleetline.audit execute function refuse()'),
  )
  for (const { action, ask } of changes)
    assert.equal((await ask()).status, 500, `${action} fails with its row`)
  await run((query) => query('drop trigger no_row on fleetline.audit'))
  assert.deepEqual(await storedRows(), before)

  for (const table of CHANGED)
    await run((query) =>
      query(`create constraint trigger no_commit after insert or update or delete on fleetline.${table}
        deferrable initially deferred for each row execute function refuse()`),
    )
  for (const { action, ask } of changes.filter(({ action }) => action !== 'token.mint'))
    assert.equal((await ask()).status, 500, `${action} fails at its commit`)
  assert.deepEqual(await storedRows(), before)
  assert.deepEqual(await newRows(), [])
})

test('S32: equal refused requests are one row, which names the owner of a genuine key or token, and names nobody for unknown keys', async (t) => {
  const { pod, url, gateway, admin, newRows, rowsAsText } = await auditedPod(t)
  const [narrow, ended] = [
    await pod.keys.create({ tenant: 'dev', name: 'narrow', scopes: ['tasks:read'] }),
    await pod.keys.create({ tenant: 'dev', name: 'ended' }),
  ]
  const { token } = await pod.tokens.mint({ user: 'ada', rights: ['send'] })
  await pod.keys.revoke(ended.entry.id)
  const expired = await tokenOf({ sub: 'bob', key: narrow.entry.id }, -3_600)
  await newRows()
  const sessions = `${gateway}/v1/sessions`
  const forged = narrow.key.replace(/.$/, narrow.key.endsWith('a') ? 'b' : 'a')
  const asked: readonly (readonly [times: number, status: number, url: string, credential?: string])[] = [
    [3, 403, sessions, narrow.key],
    [2, 403, `${sessions}/a`, narrow.key],
    [2, 401, sessions, ended.key],
    [2, 403, sessions, token],
    [2, 401, sessions, expired],
    [2, 401, sessions, forged],
    [1, 401, `${sessions}/a`, forged],
    [1, 401, `${admin}/v1/keys`],
    [1, 404, `${gateway}/v1/tasks/a`, narrow.key],
  ]
  for (const [times, status, at, credential] of asked)
    for (let n = 0; n < times; n += 1)
      assert.equal((await call('GET', at, undefined, credential)).status, status, at)
  await pod.stop()
  const own = (actor: string, via: string | null, reason: string, times: number, path = '') => ({
    tenant: 'dev',
    actor,
    via,
    target: `GET /v1/sessions${path}`,
    reason,
    times,
  })
  const stranger = { tenant: null, actor: 'nobody', via: null, target: null }
  assert.deepEqual(
    (await newRows({ databaseUrl: url })).toReversed(),
    [
      own(`key ${narrow.entry.id}`, null, 'scope', 3),
      own(`key ${narrow.entry.id}`, null, 'scope', 2, '/:session'),
      own(`key ${ended.entry.id}`, null, 'revoked', 2),
      own('user ada', null, 'right', 2),
      own('user bob', `key ${narrow.entry.id}`, 'expired', 2),
      { ...stranger, reason: 'unknown', times: 3 },
      { ...stranger, reason: 'missing', times: 1 },
    ].map((row) => ({ ...row, address: '127.0.0.1', action: 'request', outcome: 'refused' })),
  )
  const text = await rowsAsText()
  for (const secret of [narrow.key, forged, ended.key, token, expired].flatMap((one) => one.split(/[_.]/)))
    assert.ok(!isLong(secret) || !text.includes(secret), 'no part of a key or token')
})

test('a flood of refused requests is at most 201 rows each time, counts every request, and survives a failed write', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const [audit, clock, lines] = [
    createAudit({ database, metrics: createMetrics() }),
    manualClock(),
    [] as string[],
  ]
  let isUp = false
  const recordRefused: typeof audit.recordRefused = (rows) =>
    isUp ? audit.recordRefused(rows) : Promise.reject(new Error('no database'))
  const log = createLog({ level: 'warn', destination: { write: (line) => void lines.push(line) } })
  const refusals = createRefusals({ audit: { recordRefused }, clock, log })
  const refuse = (caller: Caller | null, address: string) =>
    refusals.add({ caller, address, target: 'GET /v1/sessions', reason: 'unknown' })
  for (let n = 0; n < 1_000; n += 1) refuse(null, `10.0.0.${n}`)
  await refusals.start()
  await eventually(() => assert.match(lines.join(), /refused requests were not recorded/), {
    what: 'the write to fail',
  })
  for (let n = 0; n < 1_000; n += 1) refuse({ tenant: 1, key: `key-${n}` }, '10.0.0.1')
  isUp = true
  await refusals.stop()
  const rows = await audit.list({ limit: 1_000 })
  const timesOf = (some: readonly AuditEntry[]) => some.reduce((sum, { times }) => sum + times, 0)
  assert.ok(rows.length <= 201, `${rows.length} rows`)
  assert.equal(timesOf(rows), 2_000)
  assert.equal(
    timesOf(rows.filter(({ actor }) => actor.startsWith('key '))),
    99,
    'strangers leave room for keys',
  )
  assert.equal(timesOf(rows.filter(({ target }) => target === 'others')), 2_000 - 199)
})

test('rows of the audit log are not changed; they and old cuts of tokens are deleted in steps, by the leader only', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const insert = (age: string, rows: number, action = 'key.create') =>
    run((query) =>
      query(`insert into fleetline.audit (at, actor, action, outcome)
      select now() - interval '${age}', 'pod', '${action}', 'done' from generate_series(1, ${rows})`),
    )
  await insert('1 minute', 1)
  for (const text of [
    'update fleetline.audit set times = 2',
    'delete from fleetline.audit',
    'truncate fleetline.audit',
  ])
    await assert.rejects(
      run((query) => query(text)),
      /rows of fleetline.audit cannot be updated/,
      text,
    )
  await insert('399 days', 1)
  await insert('401 days', 2_500)
  const count = async () => (await run((query) => query('select from fleetline.audit'))).length
  const [forget, forgetCuts] = identityDuties({ database, auditDays: 400 })
  const term = await run(async (query) => {
    const [pod] = await query<{ id: number }>(
      `insert into fleetline.pods (name, version) values ('a', '0') returning id`,
    )
    return (await take(query, pod!.id, 0))!
  })
  await forget!.run({ ...term, term: term.term - 1 }, () => true)
  assert.equal(await count(), 2_502, 'an old term deletes nothing')
  let steps = 0
  await forget!.run(term, () => (steps += 1) <= 2)
  assert.equal(await count(), 502, 'two steps')
  await forget!.run(term, () => true)
  assert.equal(await count(), 2)
  await insert('31 days', 1_500, 'token.mint')
  await insert('29 days', 1, 'token.mint')
  await forget!.run(term, () => true)
  assert.equal(await count(), 3, 'minted tokens are kept for 30 days')

  await run((query) =>
    query(`insert into fleetline.token_cuts (tenant, user_id, cut_at)
      select 1, 'user ' || n, now() - case n when 0 then 24 else 26 end * interval '1 hour' from generate_series(0, 2500) n`),
  )
  const cuts = async () =>
    (await run((query) => query<{ user: string }>('select user_id as user from fleetline.token_cuts'))).map(
      ({ user }) => user,
    )
  await forgetCuts!.run({ ...term, term: term.term - 1 }, () => true)
  assert.equal((await cuts()).length, 2_501)
  await forgetCuts!.run(term, () => true)
  assert.deepEqual(await cuts(), ['user 0'], 'a cut before which tokens may be valid stays')
})

test('lists and deletions of the audit log read few pages, whatever most of its rows are', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const insert = (age: string, rows: number, [actor, action, tenant]: readonly [string, string, string]) =>
    run((query) =>
      query(`insert into fleetline.audit (at, actor, action, tenant, outcome)
      select now() - interval '${age}', '${actor}', '${action}', ${tenant}, 'done' from generate_series(1, ${rows})`),
    )
  const [made] = await run((query) =>
    query<{ id: number }>(`insert into fleetline.tenants (name) values ('acme') returning id`),
  )
  await insert('300 days', 3, ['key a', 'key.create', String(made!.id)])
  await insert('200 days', 20_000, ['key b', 'request', 'null'])
  await insert('20 days', 10_000, ['nobody', 'request', 'null'])
  await insert('10 days', 20_000, ['key b', 'token.mint', '1'])
  await run((query) => query('analyze fleetline.audit'))
  const filters: readonly AuditFilter[] = [
    {},
    { tenant: 'acme' },
    { tenant: 'dev' },
    { actor: 'nobody' },
    { actor: 'key a' },
    { action: 'key.create' },
    { action: 'request' },
    { tenant: 'dev', before: 100 },
  ]
  for (const filter of filters) {
    const [plan] = await readsOf(database, (explained) =>
      createAudit({ database: explained, metrics: createMetrics() }).list(filter),
    )
    assert.ok(plan!.buffers < 100, `${JSON.stringify(filter)}: ${plan!.buffers} pages`)
  }
  const term = await run(async (query) => {
    const [pod] = await query<{ id: number }>(
      `insert into fleetline.pods (name, version) values ('a', '0') returning id`,
    )
    return (await take(query, pod!.id, 0))!
  })
  const plans = await readsOf(database, async (explained) => {
    const [forget] = identityDuties({ database: explained, auditDays: 400 })
    await forget!.run(term, () => true)
  })
  assert.equal(plans.length, 3)
  for (const { buffers, text } of plans) assert.ok(buffers < 100, `${buffers} pages: ${text}`)
})

test('fleetline audit ls shows the same over the database and over the port, with filters and pages', async (t) => {
  const { pod, url, admin, operator, keys } = await auditedPod(t)
  await pod.tenants.create('acme')
  const list = typing(AUDIT, 'audit')
  const shown = async (options: Record<string, string>, json = true) => {
    const flags = [{ databaseUrl: url }, { operatorUrl: admin, apiKey: operator }]
    const [direct, overPort] = await Promise.all(
      flags.map((one) => list({ flags: one, json }, 'ls', [], options)),
    )
    assert.deepEqual(direct, overPort)
    return direct!
  }
  const idsOf = async (options: Record<string, string>) =>
    (await shown(options)).out
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as AuditEntry).id)
  const all = await pod.audit.list()
  const idsWhere = (test: (entry: AuditEntry) => boolean) => all.filter(test).map(({ id }) => id)
  assert.ok(all.length > 5)
  assert.deepEqual(
    await idsOf({}),
    idsWhere(() => true),
  )
  assert.deepEqual(
    await idsOf({ tenant: 'acme' }),
    idsWhere(({ tenant }) => tenant === 'acme'),
  )
  assert.deepEqual(
    await idsOf({ action: 'key.create', actor: 'pod' }),
    idsWhere(({ action }) => action === 'key.create'),
  )
  const [first, second] = all
  assert.deepEqual(await idsOf({ limit: '1' }), [first!.id])
  assert.deepEqual(await idsOf({ limit: '1', before: String(first!.id) }), [second!.id])
  for (const nobody of [{ actor: '\0' }, { actor: 'key none' }]) assert.deepEqual(await idsOf(nobody), [])
  await assert.rejects(pod.audit.list({ tenant: '\0' }), { code: 'not_found' })
  await assert.rejects(pod.audit.list({ limit: 1_001 }), { code: 'invalid', message: /limit: use a whole/ })
  assert.match((await shown({ action: 'key.steal' })).err, /--action: use one of tenant.create/)
  assert.match(
    (await shown({ tenant: 'acme' }, false)).out,
    /^\d+\t2\S+\tacme\tpod\tnull\tnull\ttenant.create\tacme\tdone/,
  )
  const text = await (
    await fetch(`${admin}/metrics`, { headers: { authorization: `Bearer ${operator}` } })
  ).text()
  assert.match(text, new RegExp(`fleetline_audit_rows_total{outcome="done"} ${all.length}\n`))
  assert.equal((await call('GET', `${admin}/v1/audit`, undefined, keys.app)).status, 403)
})

/** How PostgreSQL lists the log. */
/** How much each statement reads. Statements that find a tenant run as usual. */
async function readsOf(database: Transactions, work: (explained: Transactions) => Promise<unknown>) {
  const all: Plan[] = []
  const transaction: Transactions['transaction'] = (run, options) =>
    database.transaction(async (query) => {
      const { query: explain, plans } = explaining(query)
      const isOfTenants = (text: string) => text.startsWith('select id from fleetline.tenants')
      const value = await run((text, values) => (isOfTenants(text) ? query : explain)(text, values))
      all.push(...plans)
      return value
    }, options)
  await work({ transaction })
  return all
}

const REFUSING = `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`

/** A token of ours that ends in so many seconds. */
async function tokenOf(
  claims: { readonly sub: string; readonly key: string },
  seconds: number,
): Promise<string> {
  const exp = Math.floor(Date.now() / 1_000) + seconds
  const own = {
    iss: 'fleetline',
    aud: 'fleetline/0',
    iat: exp - 600,
    exp,
    ten: 'dev',
    ses: 'member',
    scp: ['read'],
  }
  return new SignJWT({ ...own, ...claims })
    .setProtectedHeader({ alg: 'HS256', kid: 'test', typ: 'JWT' })
    .sign(SECRET)
}

/** Whether a part of a key or token is its secret: ids have 12 letters. */
function isLong(part: string): boolean {
  return part.length > 12
}
