// S1: in the tables of tenants, the tenant comes first in every key. S3: a request may name something of another tenant, in its
// path, its query or its body. It gets the answer for something that does not exist, byte for byte, apart from ids and times
// that differ in every request. No row of the other tenant changes. Routes and their fields are read from the table of routes.
// If you add a field, add it to FIELDS.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { formatId, parseId } from '@fleetline/protocol'
import type { z } from 'zod'
import { nameOf, type Route } from '../../src/door/route.ts'
import { task } from '../../src/index.ts'
import type { Query } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { AGENT, everyField, requestWith } from '../support/route-fields.ts'
import { idOf } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { TOKEN_KEYS } from '../support/tokens.ts'
import { conversationOn } from '../support/turns.ts'

/** Tables about the fleet, which have no tenant. */
const OF_THE_FLEET = [
  'downstream_loads',
  'downstreams',
  'leader',
  'migrations',
  'pods',
  'queues',
  'shapes',
  'tracks',
]
/** Tables whose rows are found by an id that no other tenant has. Only operators read `audit`. */
const BY_ID = ['api_keys', 'audit', 'issuers', 'task_history', 'tasks']

test('S1: every table but the fleet’s has a tenant; it comes first in every key, except for tasks, keys, issuers and the audit log', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const outcome = await database.transaction((query) =>
    query<{ name: string; keys: string[] | null; hasTenant: boolean }>(`
      select c.relname as name,
             exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant') as "hasTenant",
             (select array_agg(a.attname::text order by a.attname)
                from (select indkey[0] as first from pg_index where indrelid = c.oid and indisunique
                      union all select conkey[1] from pg_constraint where conrelid = c.oid and contype = 'f') k
                join pg_attribute a on a.attrelid = c.oid and a.attnum = k.first) as keys
        from pg_class c
       where c.relnamespace = 'fleetline'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       order by c.relname`),
  )
  assert.ok(outcome.type === 'committed')
  const [without, within] = [
    outcome.value.filter(({ hasTenant }) => !hasTenant),
    outcome.value.filter(({ hasTenant }) => hasTenant),
  ]
  assert.deepEqual(
    without.map(({ name }) => name),
    [...OF_THE_FLEET, 'tenants'].toSorted(),
  )
  const loose = within.filter(({ keys }) => keys === null || keys.some((first) => first !== 'tenant'))
  assert.deepEqual(
    loose.map(({ name }) => name),
    BY_ID,
  )
})

/** Two ids of one kind: another tenant has the first, nobody has the second. */
type Pair = { readonly theirs: string; readonly nobodys: string }
type Kind = 'session' | 'alias' | 'turn' | 'message' | 'task' | 'agent' | 'downstream'

/** What the text fields of a request name. An entry with a route wins over one without. */
const FIELDS: Readonly<Record<string, readonly Kind[] | 'no id'>> = {
  'params.session': ['session', 'alias'],
  'params.turn': ['turn'],
  'params.task': ['task'],
  'params.agent': ['agent'],
  'params.user': 'no id', // the application chooses it, for one session
  'GET /v1/sessions query.before': ['session', 'alias'],
  'GET /v1/tasks query.before': ['task'],
  'query.from': 'no id',
  'query.queue': 'no id', // queues belong to the fleet
  'query.machine': 'no id',
  'body.turn': ['turn'],
  'body.alias': ['alias'],
  'body.agent': ['agent'],
  'body.defaultAgent': ['agent'],
  'body.downstream': ['downstream'],
  'body.message.id': ['message'],
  'body.message.parts[].type': 'no id',
  'body.text': 'no id',
  'body.title': 'no id',
  'body.author': 'no id',
  'body.members[]': 'no id',
  'body.user': 'no id', // the application chooses it
  'body.sessions[]': ['session', 'alias'],
  'body.rights[]': 'no id',
  'body.url': 'no id',
  'body.secret': 'no id',
  'body.machine': 'no id',
  'body.queue': 'no id',
  'body.input': 'no id',
  'POST /v1/agents body.name': ['agent'],
  // The id of a new task. A taken id is a conflict, whichever tenant has it: all tenants share one space of task ids.
  'POST /v1/tasks body.id': 'no id',
}

test('S3: in any field of any route, an id of another tenant is answered like one that does not exist', async (t) => {
  const { gateway, kinds, theirs, forgetOwn } = await twoTenants(t)
  const before = await theirs()
  const asked = []
  for (const { route, field } of everyField().filter(({ schema }) => mayHoldId(schema))) {
    const named = FIELDS[`${nameOf(route)} ${field}`] ?? FIELDS[field]
    assert.ok(named, `${nameOf(route)}: say in FIELDS what ${field} names`)
    for (const pair of named === 'no id' ? [] : named.flatMap((kind) => kinds[kind])) {
      const answer = await answerTo(gateway, route, field, pair.theirs)
      await forgetOwn()
      const wanted = await answerTo(gateway, route, field, pair.nobodys)
      await forgetOwn()
      assert.deepEqual(answer, wanted, `${nameOf(route)} ${field}`)
      if (field.startsWith('params.')) assert.equal(answer.status, 404, `${nameOf(route)} ${field}`)
      asked.push(field)
    }
  }
  assert.ok(asked.length >= 28, `${asked.length} pairs`)
  assert.deepEqual(await theirs(), before)
})

test('S3: lists show only what the caller has', async (t) => {
  const { gateway } = await twoTenants(t)
  const { session } = await makeSession(gateway)
  const { body: made } = await call('POST', `${gateway}/v1/tasks`, { machine: 'work' })
  const listed = async (path: string) => (await call('GET', `${gateway}${path}`)).body
  const { sessions } = (await listed('/v1/sessions')) as { sessions: { session: string }[] }
  const { tasks } = (await listed('/v1/tasks')) as { tasks: { id: string }[] }
  assert.deepEqual(
    sessions.map((one) => one.session),
    [session],
  )
  assert.deepEqual(
    tasks.map(({ id }) => id),
    [made['id']],
  )
  assert.deepEqual(await listed('/v1/agents'), { agents: [] })
})

test('S3: for a user, a session without membership is answered like one that does not exist, in any field', async (t) => {
  const { gateway, kinds, theirs, token } = await twoUsers(t)
  const before = await theirs()
  const open = everyField().filter(
    ({ route, schema }) => route.access.audience === 'client' && mayHoldId(schema),
  )
  const asked = []
  for (const { route, field } of open) {
    const named = FIELDS[`${nameOf(route)} ${field}`] ?? FIELDS[field] ?? 'no id'
    for (const kind of named === 'no id' ? [] : named)
      for (const pair of kinds[kind] ?? []) {
        const answer = await answerTo(gateway, route, field, pair.theirs, token)
        const wanted = await answerTo(gateway, route, field, pair.nobodys, token)
        assert.deepEqual(answer, wanted, `${nameOf(route)} ${field}`)
        if (field.startsWith('params.')) assert.equal(answer.status, 404, `${nameOf(route)} ${field}`)
        asked.push(field)
      }
  }
  assert.ok(asked.length >= 14, `${asked.length} pairs`)
  assert.deepEqual(await theirs(), before)
})

/** Whether a field may hold an id: numbers, enums and times cannot. */
function mayHoldId({ type, pattern, format, enum: values }: z.core.JSONSchema.BaseSchema): boolean {
  if (values || format === 'date-time' || String(pattern).startsWith('^\\d')) return false
  return type === 'string' || type === undefined
}

/** Two tenants: one has one of everything, the other asks. */
async function twoTenants(t: TestContext) {
  const { ask, key, run, url } = await conversationOn(t)
  const asked = await ask('theirs')
  assert.ok(asked.type === 'stored' && asked.live)
  const flags = { secretsKey: Buffer.alloc(32, 7).toString('base64'), agentHosts: '127.0.0.1' }
  const { gateway } = await podOn(t, url, flags, { tasks: [task('work', async () => 1)] })
  await call('POST', `${gateway}/v1/agents`, { ...AGENT, name: 'theirs' })
  const enqueue = async (more = {}) =>
    String((await call('POST', `${gateway}/v1/tasks`, { machine: 'work', ...more })).body['id'])
  const [waiting, ended] = [await enqueue({ runAt: '9999-01-01T00:00:00Z' }), await enqueue()]
  const inHistory = () => run((query) => query('select from fleetline.task_history'))
  await eventually(async () => assert.equal((await inHistory()).length, 1), { what: 'a task to end' })
  await run((query) => query(`update fleetline.sessions set alias = 'theirs'`))
  const other = await run(giveAll)
  const [session, turn] = [idOf(key), formatId('turn', 0, asked.live.turn)]
  const kinds: Readonly<Record<Kind, readonly Pair[]>> = {
    session: [pairOf(session)],
    turn: [pairOf(turn)],
    task: [pairOf(waiting), pairOf(ended)],
    alias: [{ theirs: 'theirs', nobodys: 'nobody' }],
    agent: [{ theirs: 'theirs', nobodys: 'nobody' }],
    message: [{ theirs: 'theirs', nobodys: 'nobody' }],
    downstream: [{ theirs: `agent/${other}/theirs`, nobodys: `vendor/${other}/model` }],
  }
  return {
    gateway,
    kinds,
    theirs: () => run((query) => rowsOf(query, other)),
    forgetOwn: () =>
      run(async (query) => {
        for (const { name } of await query<{ name: string }>(HOLDERS))
          await query(`delete from ${name} where tenant <> $1`, [other])
      }),
  }
}

/** Two users of one tenant: bob has a session with a turn, and so has ada, but her token does not name it. Ada asks. */
async function twoUsers(t: TestContext) {
  const { ask, key, run, url } = await conversationOn(t)
  const asked = await ask('theirs')
  assert.ok(asked.type === 'stored' && asked.live)
  const { pod, gateway } = await podOn(t, url, { tokenKeys: TOKEN_KEYS })
  await call('PUT', `${gateway}/v1/sessions/${idOf(key)}/members/bob`)
  await run((query) => query(`update fleetline.sessions set alias = 'theirs'`))
  const unnamed = await makeSession(gateway, { alias: 'unnamed', members: ['ada'] })
  const own = await makeSession(gateway, { alias: 'own', members: ['ada'] })
  const { token } = await pod.tokens.mint({ user: 'ada', sessions: [own.session] })
  const kinds: Partial<Record<Kind, readonly Pair[]>> = {
    session: [pairOf(idOf(key)), pairOf(unnamed.session)],
    alias: [
      { theirs: 'theirs', nobodys: 'nobody' },
      { theirs: 'unnamed', nobodys: 'nobody' },
    ],
    turn: [pairOf(formatId('turn', 0, asked.live.turn))],
  }
  const notOwn = parseId('session', own.session)!.uuid
  const theirs = () =>
    run(async (query) => {
      const rows: unknown[] = []
      for (const [table, column] of SESSION_TABLES)
        rows.push(
          await query(`select t::text from fleetline.${table} t where ${column} <> $1 order by 1`, [notOwn]),
        )
      return rows
    })
  return { gateway, kinds, token, theirs }
}
const SESSION_TABLES = [
  ['sessions', 'id'],
  ['members', 'session'],
  ['messages', 'session'],
  ['turns', 'session'],
] as const

function pairOf(id: string): Pair {
  return { theirs: id, nobodys: id.replace(/.{6}$/, '000000') }
}

/** Without the audit log: nobody changes its rows. */
const HOLDERS = `select attrelid::regclass::text as name from pg_attribute join pg_class c on c.oid = attrelid
  where c.relnamespace = 'fleetline'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and attname = 'tenant' and relname <> 'audit'`

/** Gives every row to another tenant. Its tasks are dead, so that no pod runs them. */
async function giveAll(query: Query): Promise<number> {
  const [made] = await query<{ id: number }>(
    `insert into fleetline.tenants (name) values ('other') returning id`,
  )
  for (const { name } of await query<{ name: string }>(HOLDERS))
    await query(`update ${name} set tenant = $1`, [made!.id])
  await query(`update fleetline.tasks set state = 'dead', pod = null`)
  return made!.id
}

async function rowsOf(query: Query, tenant: number): Promise<unknown[]> {
  const rows: unknown[] = []
  for (const { name } of await query<{ name: string }>(HOLDERS))
    rows.push(await query(`select t::text from ${name} t where tenant = $1 order by 1`, [tenant]))
  return rows
}

/** Sends a request with this field set. Leaves out ids and times that differ in every answer. */
async function answerTo(gateway: string, route: Route, field: string, value: string, token?: string) {
  const session = token === undefined ? (await makeSession(gateway)).session : 'own'
  const known = { session, user: 'ada' }
  const given = field.startsWith('body.') ? JSON.stringify(value) : encodeURIComponent(value)
  const { path, init } = requestWith(route, field, given, known)
  const authorization: Record<string, string> =
    token === undefined ? {} : { authorization: `Bearer ${token}` }
  const answer = await fetch(`${gateway}${path}`, { ...init, headers: { ...init.headers, ...authorization } })
  const headers = [...answer.headers].filter(([name]) => name !== 'x-request-id' && name !== 'date')
  const text = (await answer.text())
    .replaceAll(value, 'VALUE')
    .replace(answer.headers.get('x-request-id')!, '')
    .replaceAll(/\b[a-z]{3}_[0-9a-f]{32,36}\b|\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'OWN')
  return { status: answer.status, headers, text }
}
