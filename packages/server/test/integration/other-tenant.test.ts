// S1: in the tables of tenants, the tenant comes first in every key. S3: a request may name something of another tenant or user, in
// its path, its query, its headers or its body. It gets the answer for something that does not exist, byte for byte, apart from
// ids and times that differ in every request. No row of the other one changes. Routes and their fields are read from the table of
// routes. If you add a field, add it to FIELDS. Mutants show that the comparison finds a statement without its tenant, and a
// membership that nobody checks.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { formatId, parseId } from '@fleetline/protocol'
import { routeTables } from '../../../../scripts/reference.ts'
import { loadConfig } from '../../src/config.ts'
import { nameOf, type Route } from '../../src/door/route.ts'
import { createDoor } from '../../src/door/server.ts'
import { gatewayRoutes } from '../../src/gateway/routes.ts'
import type { Principal } from '../../src/identity/principal.ts'
import { ALL_RIGHTS } from '../../src/identity/scopes.ts'
import { task } from '../../src/index.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createErasures } from '../../src/erasure/erasures.ts'
import { createRetention } from '../../src/erasure/retention.ts'
import { createAudit } from '../../src/identity/audit.ts'
import { createCuts } from '../../src/identity/cuts.ts'
import { pick } from '../../src/lib/pick.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { createInbox } from '../../src/inbox/inbox.ts'
import { createSessions, type Sessions } from '../../src/session/sessions.ts'
import type { Query, Transactions } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { createUsageList } from '../../src/usage/list.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { silentLog } from '../support/log.ts'
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
  'usage_progress',
]
/** Tables whose rows are found by an id that no other tenant has. Only operators read `audit`. */
const BY_ID = ['api_keys', 'audit', 'issuers', 'task_history', 'tasks', 'tickets']

test('S1: every table but the fleet’s has a tenant; it comes first in every key, except for tasks, keys, issuers, tickets and the audit log', async (t) => {
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
type Kind = 'session' | 'alias' | 'turn' | 'message' | 'task' | 'agent' | 'downstream' | 'place' | 'erasure'

/** What the fields of a request name. A position is a number in the session that the path names, or several in one text. An
 *  entry with a route wins over one without. */
const FIELDS: Readonly<Record<string, readonly Kind[] | 'no id' | 'position'>> = {
  'params.session': ['session', 'alias'],
  'params.turn': ['turn'],
  'params.message': ['message'],
  'params.erasure': ['erasure'],
  'params.task': ['task'],
  'params.agent': ['agent'],
  'params.user': 'no id', // the application chooses it, for one session
  'GET /v1/sessions query.before': ['session', 'alias'],
  'GET /v1/erasures query.before': ['erasure'],
  'GET /v1/tasks query.before': ['task'],
  'query.after': 'position',
  'query.before': 'position',
  'query.epoch': 'position',
  'headers.last-event-id': 'position',
  'body.epoch': 'position',
  'body.ifHead': 'position',
  'body.seq': 'position',
  'query.cursor': ['place'], // names the last session of a page
  'GET /v1/sessions/:session/ag-ui query.cursor': 'position',
  'query.show': 'no id',
  'query.user': 'no id', // the application chooses it
  'query.limit': 'no id',
  'query.state': 'no id',
  'query.from': 'no id',
  'query.to': 'no id',
  'query.by': 'no id',
  'query.agent': ['agent'],
  'query.session': ['session'],
  'query.queue': 'no id', // queues belong to the fleet
  'query.machine': 'no id',
  'body.turn': ['turn'],
  'body.alias': ['alias'],
  'body.agent': ['agent'],
  'body.defaultAgent': ['agent'],
  'body.downstream': ['downstream'],
  'body.message': ['message'],
  'params.id': ['session', 'alias'],
  'POST /v1/chat body.id': ['session', 'alias'],
  'POST /v1/chat body.message': 'no id',
  'body.messages[]': 'no id',
  'body.messageId': ['message'],
  'body.trigger': 'no id',
  'body.activeStreamId': ['turn'],
  'headers.x-fleetline-ai-sdk': 'no id',
  'body.message.id': ['message'],
  'PUT /v1/sessions/:session/messages/:message body.id': ['message'],
  'body.parts[].type': 'no id',
  'body.message.role': 'no id',
  'body.message.parts[].type': 'no id',
  'body.message.metadata': 'no id',
  'body.reply': 'no id',
  'body.text': 'no id',
  'body.title': 'no id',
  'body.metadata': 'no id',
  'body.archived': 'no id',
  'body.keepDays': 'no id',
  'query.keepDays': 'no id',
  'body.author': 'no id',
  'body.members[]': 'no id',
  'body.user': 'no id', // the application chooses it
  'body.sessions[]': ['session', 'alias'],
  'body.rights[]': 'no id',
  'body.seconds': 'no id',
  'body.url': 'no id',
  'body.protocol': 'no id',
  'body.secret': 'no id',
  'body.window.messages': 'no id',
  'body.window.bytes': 'no id',
  'body.compaction.enabled': 'no id',
  'body.compaction.tokenBudget': 'no id',
  'body.compaction.triggerRatio': 'no id',
  'body.compaction.url': 'no id',
  'body.machine': 'no id',
  'body.queue': 'no id',
  'body.input': 'no id',
  'body.priority': 'no id',
  'body.runAt': 'no id',
  'body.maxAttempts': 'no id',
  'POST /v1/agents body.name': ['agent'],
  // The id of a new task. A taken id is a conflict, whichever tenant has it: all tenants share one space of task ids.
  'POST /v1/tasks body.id': 'no id',
}

test('S3: in any field of any route, an id of another tenant is answered like one that does not exist', async (t) => {
  const { asking, kinds, theirs } = await twoTenants(t)
  const before = await theirs()
  const { asked, differing } = await compare(asking, kinds, everyField())
  assert.deepEqual(differing, [])
  assert.ok(asked >= 28, `${asked} pairs`)
  assert.deepEqual(await theirs(), before)
  const ofOperators = routeTables()[4401].filter(({ access }) => access.tenant !== 'none')
  assert.deepEqual(ofOperators, [], 'no route for operators asks for the tenant of its caller')
})

test('S3: a position (a seq or an epoch) reveals nothing of a session of another tenant or user', async (t) => {
  const [{ asking, kinds, secrets }, users] = [await twoTenants(t), await twoUsers(t)]
  const positions = everyField().filter(({ route, field }) => namedBy(route, field) === 'position')
  const [pair] = kinds.session
  const ownWithTwo = async () => {
    const session = await asking.own()
    for (const text of ['one', 'two'])
      await call('POST', `${asking.gateway}/v1/sessions/${session}/messages`, { text })
    return session
  }
  for (const { route, field } of positions) {
    const name = `${nameOf(route)} ${field}`
    for (const [asker, { theirs, nobodys }] of [
      [asking, pair!],
      [users.asking, users.kinds.session![0]!],
    ] as const) {
      const answer = await answerTo(asker, route, field, positionIn(route, field), theirs)
      assert.deepEqual(answer, await answerTo(asker, route, field, positionIn(route, field), nobodys), name)
      assert.equal(answer.status, 404, name)
    }
    const { text } = await answerTo({ ...asking, own: ownWithTwo }, route, field, positionIn(route, field))
    for (const secret of secrets) assert.ok(!text.includes(secret), `${name}: ${text}`)
  }
  assert.deepEqual(positions.map(({ field }) => field).toSorted(), [
    'body.epoch',
    'body.epoch',
    'body.epoch',
    'body.ifHead',
    'body.ifHead',
    'body.ifHead',
    'body.seq',
    'headers.last-event-id',
    'headers.last-event-id',
    'query.after',
    'query.after',
    'query.before',
    'query.cursor',
    'query.epoch',
  ])
})

test('S3: lists show only what the caller has', async (t) => {
  const { gateway } = (await twoTenants(t)).asking
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
  const { asking, kinds, named, theirs } = await twoUsers(t)
  const before = await theirs()
  const open = everyField().filter(({ route }) => route.access.audience === 'client')
  for (const [asker, ids] of [
    [asking, kinds],
    [named, { ...kinds, session: [...kinds.session!, ...named.unnamed], alias: named.aliases }],
  ] as const) {
    const { asked, differing } = await compare(asker, ids, open)
    assert.deepEqual(differing, [])
    assert.ok(asked >= 16, `${asked} pairs`)
  }
  assert.deepEqual(await theirs(), before)
})

test('mutant: S3 finds a statement without its tenant, and a membership that nobody checks', async (t) => {
  const { url, kinds, tenant } = await twoTenants(t)
  const ofSessions = everyField().filter(
    ({ route, field }) =>
      /^[/]v1[/](?:sessions|turns)[/]/.test(route.path) && /^params.(?:session|turn)$/.test(field),
  )
  const namesOf = async (kindsOf: Kinds, options: Parameters<typeof bareGateway>[2]) => {
    const { differing } = await compare(await bareGateway(t, url, options), kindsOf, ofSessions)
    return [...new Set(differing.map(({ name }) => name))].toSorted()
  }
  const key: Principal = {
    tenant: 1,
    scopes: new Set(['sessions:read', 'sessions:write', 'sessions:erase']),
    key: 'key',
  }
  assert.deepEqual(await namesOf(kinds, { principal: key }), [])
  const withoutTenant = (text: string) =>
    IS_FIND.test(text) ? text.replace('tenant = $1', '$1::int is not null') : text
  assert.deepEqual(await namesOf(kinds, { principal: key, change: withoutTenant }), [
    'GET /v1/sessions/:session params.session',
  ])

  const user = { id: 'eve', rights: new Set(ALL_RIGHTS), sessions: undefined, issuedMs: 0, endMs: Infinity }
  const principal: Principal = { tenant, scopes: new Set(), key: null, user }
  const open = ofSessions.filter(({ route }) => route.access.audience === 'client')
  // A read looks for the member's row, too: without the check of membership it still finds none.
  const everyName = open
    .map(({ route, field }) => `${nameOf(route)} ${field}`)
    .filter((name) => name !== 'POST /v1/sessions/:session/read params.session')
    .toSorted()
  const seen = new Set(await namesOf(kinds, { principal, isMember: async () => true }))
  assert.deepEqual(
    everyName.filter((name) => !seen.has(name)),
    [],
  )
  const shut = new Set(await namesOf(kinds, { principal }))
  assert.deepEqual(
    everyName.filter((name) => shut.has(name)),
    [],
  )
})

/** The statement that finds a session by its id. */
const IS_FIND =
  /^\s*select id, alias,.* from fleetline.sessions where tenant = \$1 and id = \$2 and erased_at is null$/

type Kinds = Readonly<Partial<Record<Kind, readonly Pair[]>>>
type Asking = {
  readonly gateway: string
  readonly token?: string
  /** A session that the caller has. */
  readonly own: () => Promise<string>
  /** Deletes what the caller's last request has made. */
  readonly forget?: () => Promise<unknown>
}

/** Sends both ids of every pair in every field that may name one. Returns the fields in which the answers differ. */
async function compare(asking: Asking, kinds: Kinds, fields: ReturnType<typeof everyField>) {
  const differing: object[] = []
  let asked = 0
  for (const { route, field } of fields) {
    const kindsOf = namedBy(route, field)
    for (const pair of typeof kindsOf === 'string' ? [] : kindsOf.flatMap((kind) => kinds[kind] ?? [])) {
      const answer = await answerTo(asking, route, field, pair.theirs)
      await asking.forget?.()
      const wanted = await answerTo(asking, route, field, pair.nobodys)
      await asking.forget?.()
      const isChat = route.path.startsWith('/v1/chat') // one that does not exist yet is empty
      const isMissing = !field.startsWith('params.') || answer.status === 404 || isChat
      if (!isDeepStrictEqual(answer, wanted) || !isMissing)
        differing.push({ name: `${nameOf(route)} ${field}`, answer, wanted })
      asked += 1
    }
  }
  return { asked, differing: differing as { readonly name: string }[] }
}

function namedBy(route: Route, field: string) {
  const named = FIELDS[`${nameOf(route)} ${field}`] ?? FIELDS[field]
  assert.ok(named, `${nameOf(route)}: say in FIELDS what ${field} names`)
  return named
}

/** Where the other tenant's session is: one message, and one turn of epoch 1. */
function positionIn({ path }: Route, field: string): string {
  if (path.endsWith('/ag-ui')) return '1.1~'
  return field === 'headers.last-event-id' ? '1.1.1.0' : '1'
}

/** The routes of sessions behind a port that lets in one caller, without the rest of a pod. Mutants change its statements, or who
 *  is a member. */
async function bareGateway(
  t: TestContext,
  url: string,
  options: {
    readonly principal: Principal
    readonly change?: (text: string) => string
    readonly isMember?: Sessions['isMember']
  },
): Promise<Asking> {
  const { principal, change = (text) => text, isMember } = options
  const [clock, random, metrics, log] = [systemClock(), systemRandom(), createMetrics(), silentLog()]
  const real = await openDatabase(t, url)
  const database: Transactions = {
    transaction: (work, how) =>
      real.transaction((query) => work((text, values) => query(change(text), values)), how),
  }
  const config = loadConfig({ environment: {}, flags: { transactionDeadlineMs: '120000' } })
  const hints = { listen: () => () => undefined, send: () => undefined }
  const ignored = () => undefined
  const unheard = { onTurns: ignored, onMoved: ignored, onRead: ignored, onMembershipChanged: ignored }
  const parts = { ...config, database, hints, clock, random, metrics, log, ...unheard }
  const sessions = { ...createSessions(parts), ...(isMember && { isMember }) }
  const unused = undefined as never
  const rateLimits = { countRequest: () => undefined, countAppend: () => undefined }
  const listening = { ...hints, listenTo: () => () => undefined }
  const inbox = createInbox({ ...parts, ...pick(sessions, 'reserve', 'budget'), hints: listening, cell: 0 })
  const usage = createUsageList({ database })
  const audit = createAudit({ database, metrics })
  const cuts = createCuts({ database, audit })
  const erasures = createErasures({
    ...parts,
    audit,
    cuts,
    sessions,
    deadlineMs: config.transactionDeadlineMs,
  })
  const others = {
    inbox,
    usage,
    erasures,
    retention: createRetention({ database, audit }),
    agents: unused,
    tasks: unused,
    tokens: unused,
    tickets: unused,
    cuts,
    tenants: unused,
  }
  const door = createDoor({
    name: 'gateway',
    host: '127.0.0.1',
    port: 0,
    audiences: ['probe', 'key', 'client'],
    ...gatewayRoutes({
      ...others,
      version: '0',
      sessions,
      rateLimits,
      clock,
      random,
      log,
      cell: 0,
      chatBodyLimitBytes: 4_096,
    }),
    limits: config,
    callers: { callerOf: async () => principal, recheck: async () => undefined },
    ...pick(config, 'corsOrigins', 'trustedProxies'),
    rateLimits,
    onRefused: () => undefined,
    isDraining: () => false,
    clock,
    random,
    metrics,
    log,
  })
  atEnd(t, () => sessions.stop())
  await sessions.start()
  atEnd(t, () => door.stop())
  await door.start()
  return { gateway: `http://127.0.0.1:${door.port()}`, own: async () => 'own' }
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
  const [erasure] = await run((query) =>
    query<{ id: string }>(
      `insert into fleetline.erasures (tenant, id, kind, session) select 1, id, 'session', id from fleetline.sessions returning id`,
    ),
  )
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
    place: [placeOf(pairOf(session))],
    erasure: [pairOf(formatId('erasure', 0, erasure!.id))],
  }
  const forget = () =>
    run(async (query) => {
      for (const { name } of await query<{ name: string }>(HOLDERS))
        await query(`delete from ${name} where tenant <> $1`, [other])
    })
  const asking: Asking = { gateway, own: async () => (await makeSession(gateway)).session, forget }
  return {
    url,
    asking,
    kinds,
    tenant: other,
    /** What no answer to another tenant contains. */
    secrets: [key.session, session, asked.live.turn, turn, 'theirs'],
    theirs: () => run((query) => rowsOf(query, `where tenant = ${other}`)),
  }
}

/** Two users of one tenant: bob has a session with a turn. Ada has others, and asks with two tokens. */
async function twoUsers(t: TestContext) {
  const { ask, key, run, url } = await conversationOn(t)
  const asked = await ask('theirs')
  assert.ok(asked.type === 'stored' && asked.live)
  const { pod, gateway } = await podOn(t, url, {
    tokenKeys: TOKEN_KEYS,
    userRate: '1000000',
    sessionRate: '1000000',
  })
  await call('PUT', `${gateway}/v1/sessions/${idOf(key)}/members/bob`)
  await run((query) => query(`update fleetline.sessions set alias = 'theirs'`))
  const unnamed = await makeSession(gateway, { alias: 'unnamed', members: ['ada'] })
  const own = await makeSession(gateway, { alias: 'own', members: ['ada'] })
  const made = [own.session]
  const asking: Asking = {
    gateway,
    token: (await pod.tokens.mint({ user: 'ada', rights: ALL_RIGHTS })).token,
    own: async () => {
      const { session } = await makeSession(gateway, { members: ['ada'] })
      made.push(session)
      return session
    },
  }
  const kinds: Kinds = {
    session: [pairOf(idOf(key))],
    alias: [{ theirs: 'theirs', nobodys: 'nobody' }],
    turn: [pairOf(formatId('turn', 0, asked.live.turn))],
    message: [{ theirs: 'theirs', nobodys: 'nobody' }],
    agent: [{ theirs: 'demo', nobodys: 'nobody' }],
    place: [placeOf(pairOf(idOf(key)))],
  }
  /** A token of ada that names one of her sessions, and the ids of the one that it does not name. */
  const named = {
    gateway,
    token: (await pod.tokens.mint({ user: 'ada', sessions: [own.session] })).token,
    own: async () => own.session,
    unnamed: [pairOf(unnamed.session)],
    aliases: [...kinds.alias!, { theirs: 'unnamed', nobodys: 'nobody' }],
    forget: () =>
      run(async (query) => {
        await query('delete from fleetline.messages where session = $1', [uuidOf(own.session)])
        await query('update fleetline.sessions set head = 0 where id = $1', [uuidOf(own.session)])
      }),
  }
  /** All rows but those of the sessions that ada may use here. */
  const theirs = async () => {
    const uuids = made.map(uuidOf)
    const rows = await run((query) => rowsOf(query, ''))
    return rows.map(({ name, texts }) => ({
      name,
      texts: texts.filter((text) => !uuids.some((uuid) => text.includes(uuid))),
    }))
  }
  return { asking, kinds, named, theirs }
}

function uuidOf(session: string): string {
  return parseId('session', session)!.uuid
}

/** A place in the inbox behind these sessions. */
function placeOf({ theirs, nobodys }: Pair): Pair {
  const place = (session: string) => `0.${'9'.repeat(15)}.${uuidOf(session)}`
  return { theirs: place(theirs), nobodys: place(nobodys) }
}

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

async function rowsOf(query: Query, where: string) {
  const rows: { readonly name: string; readonly texts: readonly string[] }[] = []
  const tables = [...(await query<{ name: string }>(HOLDERS)), { name: 'fleetline.tenants' }]
  for (const { name } of tables) {
    const filter = name === 'fleetline.tenants' ? where.replace('tenant =', 'id =') : where
    const found = await query<{ text: string }>(`select t::text as text from ${name} t ${filter} order by 1`)
    rows.push({ name, texts: found.map(({ text }) => text) })
  }
  return rows
}

/** Sends a request with this field set. Leaves out ids and times that differ in every answer. */
async function answerTo(
  { gateway, token, own }: Asking,
  route: Route,
  field: string,
  value: string,
  session?: string,
) {
  const known = {
    session: session ?? (await own()),
    id: 'own',
    user: 'ada',
    turn: 'own',
    task: 'own',
    agent: 'own',
    message: 'own',
    erasure: 'own',
  }
  const isText = namedBy(route, field) !== 'position'
  const given = field.startsWith('body.') && isText ? JSON.stringify(value) : encodeURIComponent(value)
  const { path, init } = requestWith(route, field, given, known)
  const authorization: Record<string, string> =
    token === undefined ? {} : { authorization: `Bearer ${token}` }
  const answer = await fetch(`${gateway}${path}`, {
    ...init,
    headers: { ...init.headers, ...authorization },
    signal: AbortSignal.timeout(30_000),
  })
  const headers = [...answer.headers].filter(([name]) => name !== 'x-request-id' && name !== 'date')
  const isStream = answer.headers.get('content-type') === 'text/event-stream'
  const text = (isStream ? await firstEvent(answer) : await answer.text())
    .replaceAll(isText ? value : known.session, 'VALUE')
    .replace(answer.headers.get('x-request-id')!, '')
    .replaceAll(/\b[a-z]{3}_[0-9a-f]{32,36}\b|\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'OWN')
  return { status: answer.status, headers, text }
}

/** Reads a stream until its first event is complete. */
async function firstEvent(answer: Response): Promise<string> {
  let text = ''
  for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
    text += piece
    if (/^data:.*\n\n/m.test(text)) break
  }
  return text
}
