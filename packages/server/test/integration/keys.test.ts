// S6: keys on PostgreSQL, and what each opens. S2: every route of both ports, read from the table of routes, lets in a key with
// its scope and nobody else. Commands run in this process.
import assert from 'node:assert/strict'
import fs, { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { routeTables } from '../../../../scripts/reference.ts'
import { AGENTS } from '../../src/cli/agents.ts'
import { AUDIT } from '../../src/cli/audit.ts'
import type { CommandOptions } from '../../src/cli/command.ts'
import { KEYS } from '../../src/cli/keys.ts'
import { writeKeyFile } from '../../src/cli/keys/key-file.ts'
import type { Flags } from '../../src/config.ts'
import { nameOf, type Route } from '../../src/door/route.ts'
import {
  ALL_RIGHTS,
  OPERATOR_SCOPES,
  TENANT_SCOPES,
  type Right,
  type Scope,
} from '../../src/identity/scopes.ts'
import type { Pod } from '../../src/pod.ts'
import { valueOf } from '../../src/store/database.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { CLOSED as NO_LOGIN, podOn } from '../support/pod.ts'
import { plainRequest } from '../support/route-fields.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'

const CLOSED = { ...NO_LOGIN, loginRate: '1000' } // these tests try many wrong keys
const KNOWN = {
  session: 'a',
  id: 'a',
  message: 'a',
  user: 'a',
  turn: 'a',
  agent: 'a',
  task: 'a',
  erasure: 'a',
  key: 'a',
  issuer: 'a',
  pod: '999',
}
const ALL = { tenant: Object.keys(TENANT_SCOPES), operator: Object.keys(OPERATOR_SCOPES) }

test('S2: each route answers 401 to nobody, 403 to a key or a user without its scope or right, and lets in the others', async (t) => {
  const { pod, ports } = await closedPod(t)
  const keyWith = keysOf(pod)
  const tokenWith = async (rights: readonly Right[]) => (await pod.tokens.mint({ user: 'ada', rights })).token
  const asked = ports.flatMap(({ url, routes }) => routes.map((route) => ({ url, route })))
  const probes: string[] = []
  for (const { url, route } of asked) {
    const { access } = route
    if (access.audience === 'probe') {
      probes.push(nameOf(route))
      continue
    }
    const owner = access.audience === 'admin' ? 'operator' : 'tenant'
    const without = access.scope === 'operate' ? [] : [ALL[owner].filter((scope) => scope !== access.scope)]
    const isChat = nameOf(route) === 'POST /v1/chat' // it also reads the reply
    const statuses = {
      nobody: await statusOf(url, route),
      others: await Promise.all(
        without.map(async (scopes) => statusOf(url, route, await keyWith(owner, scopes))),
      ),
      otherPort: await statusOf(url, route, await keyWith(...otherPort(owner))),
      own: await statusOf(
        url,
        route,
        await keyWith(owner, [access.scope, ...(isChat ? ['sessions:read'] : [])]),
      ),
    }
    assert.equal(statuses.nobody, 401, nameOf(route))
    assert.deepEqual(
      statuses.others,
      without.map(() => 403),
      nameOf(route),
    )
    assert.equal(statuses.otherPort, 403, nameOf(route))
    assert.ok(![401, 403].includes(statuses.own), `${nameOf(route)}: ${statuses.own}`)
    const lacking =
      access.audience === 'client' ? ALL_RIGHTS.filter((right) => right !== access.right) : ALL_RIGHTS
    assert.equal(await statusOf(url, route, await tokenWith(lacking)), 403, `${nameOf(route)}, as a user`)
    if (access.audience !== 'client') continue
    const admitted = await statusOf(
      url,
      route,
      await tokenWith([access.right, ...(isChat ? (['read'] as const) : [])]),
    )
    assert.ok(![401, 403].includes(admitted), `${nameOf(route)}, as a user: ${admitted}`)
  }
  assert.deepEqual(probes, [
    'GET /v1/socket',
    'GET /v1/chat/socket',
    'GET /v1/openapi.json',
    'GET /livez',
    'GET /readyz',
  ])
})

test('S6: a key is stored as a digest, ends when it is revoked or expires, and a name has two live ones', async (t) => {
  const { pod, ports, url, lines } = await closedPod(t)
  const database = await openDatabase(t, url)
  const run = async (text: string, values: readonly unknown[] = []) =>
    valueOf(await database.transaction((query) => query<{ row: string }>(text, values)), 'not run')
  const create = () => pod.keys.create({ tenant: 'dev', name: 'backend' })
  const [first, second] = [await create(), await create()]
  const rows = (await run('select k::text as row from fleetline.api_keys k')).map(({ row }) => row)
  for (const { key } of [first, second])
    for (const part of [key, key.split('_')[3]!])
      for (const text of [part, Buffer.from(part).toString('hex')])
        assert.ok(![...rows, ...lines].join().includes(text), 'the secret is neither stored nor logged')

  await assert.rejects(create, { code: 'too_many', message: /2 live keys named backend/ })
  assert.equal((await listSessions(ports, first.key)).status, 200)
  assert.equal((await pod.keys.revoke(first.entry.id))?.state, 'revoked')
  await eventually(
    async () => {
      const { status, text } = await listSessions(ports, first.key)
      assert.equal(status, 401)
      assert.match(text, new RegExp(`The key ${first.entry.id} was revoked`))
    },
    { what: 'the revoked key to be rejected' },
  )
  const third = await create()
  await run(`update fleetline.api_keys set expires_at = now() where id = $1`, [third.entry.id])
  const expired = await listSessions(ports, third.key)
  assert.equal(expired.status, 401)
  assert.match(expired.text, /expired at 2/)
  assert.equal((await listSessions(ports, second.key)).status, 200)
})

test('S6: what is not exactly a live key opens nothing, and the answer does not say how near it was', async (t) => {
  const { pod, ports } = await closedPod(t)
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const flip = key.endsWith('a') ? 'b' : 'a'
  const nearly = await listSessions(ports, `${key.slice(0, -1)}${flip}`)
  const unknown = await listSessions(ports, key.replace(/_\w{12}_/, '_000000000000_'))
  const withoutIds = (text: string) => text.replace(/req_[\w-]+/, '')
  assert.equal(nearly.status, 401)
  assert.equal(withoutIds(nearly.text), withoutIds(unknown.text))
  const headers = [
    '',
    'Bearer',
    `Bearer ${key} `,
    `Bearer  ${key}`,
    `Basic ${key}`,
    key,
    `Bearer ${key}, Bearer ${key}`,
    `Bearer ${key.replace('live', 'test')}`,
    `Bearer ${key.toUpperCase()}`,
    `Bearer ${'x'.repeat(8_000)}`,
    'Bearer fl_live___',
  ]
  for (const authorization of headers) {
    const { status } = await fetch(`${ports[0]!.url}/v1/sessions`, { headers: { authorization } })
    // HTTP itself removes spaces at the end of a header.
    assert.equal(status, authorization === `Bearer ${key} ` ? 200 : 401, JSON.stringify(authorization))
  }
  assert.equal((await fetch(`${ports[0]!.url}/v1/sessions?key=${key}`)).status, 401)
})

test('tenants and keys are created with database access, then over the port of operators', async (t) => {
  const { ports, url: databaseUrl } = await closedPod(t)
  const [gateway, admin] = ports.map(({ url }) => url)
  const [tenants, keys, agents] = [typing(KEYS, 'tenants'), typing(KEYS, 'keys'), typing(AGENTS, 'agents')]
  const create = async (flags: Flags, name: string, options: CommandOptions) =>
    JSON.parse((await keys({ flags, json: true }, 'create', [name], options)).out) as Created
  const direct = { flags: { databaseUrl } }
  assert.match((await tenants(direct, 'create', ['acme'])).out, /^name\tacme\n/)
  const scopes = 'operate,admin:read,admin:write'
  const operator = await create(direct.flags, 'on-call', { operator: true, scopes })
  const overPort = { flags: { operatorUrl: admin, apiKey: operator.key } }
  const own = await create(overPort.flags, 'backend', { tenant: 'acme', scopes: 'agents:read', test: true })
  assert.match(own.key, /^fl_test_\w{12}_\w{43}$/)
  assert.match((await tenants(overPort, 'ls')).out, /^acme\t.*\ndev\t/)
  const listed = await keys(overPort, 'ls', [], { tenant: 'acme' })
  assert.match(listed.out, /^\w{12}\tacme\tbackend\tlive\t\["agents:read"\]/)

  const asOwner = { flags: { apiUrl: gateway, apiKey: own.key } }
  assert.deepEqual(await agents(asOwner, 'ls'), { code: 0, out: '', err: '' })
  const nobody = await agents({ flags: { apiUrl: gateway } }, 'ls')
  assert.equal(nobody.code, 4)
  assert.match(nobody.err, /Set FLEETLINE_API_KEY, or name a file with a key: --api-key-file/)
  const denied = await agents(asOwner, 'rm', ['a'])
  assert.equal(denied.code, 4)
  assert.match(denied.err, new RegExp(`The key ${own.id} does not have the scope agents:write`))

  assert.match((await keys(overPort, 'revoke', [own.key])).out, /state\trevoked/)
  const wrong = await keys(overPort, 'revoke', [own.key.slice(0, -1)])
  assert.equal(wrong.code, 2)
  assert.ok(!wrong.err.includes(own.key.slice(20, -1)), 'a key that is pasted wrongly is not printed')
  assert.equal((await keys(direct, 'revoke', ['000000000000'])).code, 3)
  const audit = typing(AUDIT, 'audit')
  for (const how of [direct, overPort])
    for (const list of [keys, audit]) {
      const { code, out, err } = await list(how, 'ls', [], { tenant: 'typo' })
      assert.deepEqual([code, out], [3, ''])
      assert.match(err, /There is no tenant typo: list them with fleetline tenants ls/)
    }
  await tenants(direct, 'create', ['empty'])
  assert.deepEqual(await keys(overPort, 'ls', [], { tenant: 'empty' }), { code: 0, out: '', err: '' })
  for (const [name, options, reason] of REFUSED)
    for (const how of [direct, overPort])
      assert.match((await keys(how, 'create', [name], options)).err, reason)
})

test('a key can be written into a new file, which is readable for its owner only; it is printed if the write fails', async (t) => {
  const { url: databaseUrl, pod } = await closedPod(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-keys-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const keys = typing(KEYS, 'keys')
  const create = (out: string, json = false) =>
    keys({ flags: { databaseUrl }, json }, 'create', ['backend'], { tenant: 'dev', out })
  for (const json of [false, true]) {
    const path = join(folder, `${json}.key`)
    const { code, out } = await create(path, json)
    const text = readFileSync(path, 'utf8')
    assert.deepEqual([code, statSync(path).mode & 0o777], [0, 0o600])
    assert.match(text, /^fl_live_\w{12}_\w{43}\n$/)
    assert.match(out, /backend/)
    assert.ok(!out.includes('fl_live_'), 'the key is not printed')
    const refused = await create(path, json)
    assert.deepEqual([refused.code, refused.out, readFileSync(path, 'utf8')], [4, '', text])
    assert.match(refused.err, /exists already\. Name a new file, or remove this one/)
  }
  assert.match(
    (await create(join(folder, 'none/a.key'))).err,
    /cannot be created: its folder does not exist\. Name another file/,
  )
  assert.match((await create(join(folder, 'x'.repeat(300)))).err, /cannot be created: ENAMETOOLONG\. /)
  for (const there of ['.', '..', folder]) {
    const { err } = await create(there)
    assert.ok(err.includes(`--out: ${there} is a folder. Name a file in it`), err)
  }
  assert.match((await create(join(folder, 'none/'))).err, /--out: .*none\/ ends with a slash\. Name a file/)
  assert.match((await create('')).err, /--out is empty\. Name a file/)
  assert.equal((await pod.keys.list()).length, 2, 'what is refused creates no key')
  for (const { id } of await pod.keys.list()) await pod.keys.revoke(id)
  const path = join(folder, 'same.key') // both find that it does not exist
  const both = await Promise.all([create(path, true), create(path, true)])
  const [late] = both.filter(({ code }) => code === 1)
  assert.match(late!.out, /"key":"fl_live_/)
  assert.match(late!.err, /The key \w{12} was created, but .* cannot be written/)
  const [early] = both.filter(({ code }) => code === 0)
  assert.ok(!early!.out.includes('fl_live_'))
})

test('a key file that cannot be closed is removed, because the key in it may be cut off', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-keys-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const close = fs.closeSync
  const broken = t.mock.method(fs, 'closeSync', (file: number) => {
    close(file)
    throw new Error('the disk is full')
  })
  syncBuiltinESMExports()
  atEnd(t, () => {
    broken.mock.restore()
    syncBuiltinESMExports()
  })
  assert.throws(() => writeKeyFile(join(folder, 'a.key'), 'key'), /the disk is full/)
  assert.deepEqual(readdirSync(folder), [])
})

test('a command warns that its key is sent to another host without TLS, but not with --json', async (t) => {
  const { ports, pod } = await closedPod(t)
  const [apiUrl, operatorUrl] = ports.map(({ url }) => url.replace('127.0.0.1', '0.0.0.0'))
  const { key: own } = await pod.keys.create({ tenant: 'dev', name: 'own', scopes: ['agents:read'] })
  const { key: operator } = await pod.keys.create({ name: 'on-call' })
  for (const [commands, group, flag, flags] of [
    [AGENTS, 'agents', '--url', { apiUrl, apiKey: own }],
    [KEYS, 'tenants', '--operator-url', { operatorUrl, apiKey: operator }],
  ] as const) {
    const { code, err } = await typing(commands, group)({ flags }, 'ls')
    assert.match(err, /^Warning: the API key is sent to 0\.0\.0\.0:\d+ without TLS, .*\n$/)
    assert.ok(err.includes(`Use ${flag} to name a URL that begins with https://`), err)
    assert.equal(code, 0)
    assert.equal((await typing(commands, group)({ flags, json: true }, 'ls')).err, '')
  }
  assert.doesNotMatch((await typing(AGENTS, 'agents')({ flags: { apiUrl } }, 'ls')).err, /Warning/)
})

test('S9: revoking a key on one pod ends its stream on another, and its next request', async (t) => {
  const { pod, url } = await closedPod(t)
  const { gateway } = await podOn(t, url, CLOSED)
  const { key, entry } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const headers = { authorization: `Bearer ${key}` }
  const { session } = await pod.sessions.create()
  const stream = await fetch(`${gateway}/v1/sessions/${session}/events`, { headers })
  assert.equal(stream.status, 200)
  const over = stream.text()
  await pod.keys.revoke(entry.id)
  assert.ok(!(await over).includes('event: messages'), 'the stream ends by itself')
  assert.equal((await fetch(`${gateway}/v1/sessions`, { headers })).status, 401)
})

test('ten commands that create one tenant at a time all succeed, and a name with U+0000 finds nothing', async (t) => {
  const { pod, ports } = await closedPod(t)
  const made = await Promise.all(Array.from({ length: 10 }, () => pod.tenants.create('acme')))
  assert.equal(made.filter(({ isNew }) => isNew).length, 1)
  const { key } = await pod.keys.create({ name: 'on-call' })
  const headers = { authorization: `Bearer ${key}` }
  const ask = (path: string) => fetch(`${ports[1]!.url}${path}`, { headers })
  assert.deepEqual(await (await ask('/v1/tenants?after=%00')).json(), { tenants: [] })
  assert.equal((await ask('/v1/keys?tenant=%00')).status, 404)
  await assert.rejects(pod.keys.create({ tenant: '\0', name: 'x' }), { code: 'not_found' })
})

type Created = { readonly key: string; readonly id: string }

const REFUSED: readonly (readonly [name: string, options: CommandOptions, reason: RegExp])[] = [
  ['name', {}, /either --tenant, or --operator/],
  ['name', { tenant: 'nobody' }, /There is no tenant nobody/],
  [
    'name',
    { tenant: 'acme', scopes: 'operate' },
    /operate is not one. A key of a tenant may have: sessions:read,/,
  ],
  [
    'name',
    { operator: true, scopes: 'tasks:read' },
    /tasks:read is not one. A key of an operator may have: operate,/,
  ],
  ['a b', { tenant: 'acme' }, /name: use 1 to 63 letters/],
  ['name', { tenant: 'acme', days: '9999' }, /--days must be a whole number from 1 to 730/],
]

type Port = { readonly url: string; readonly routes: readonly Route[] }

/** A pod that lets nobody in without a key. */
async function closedPod(t: TestContext) {
  const url = await databaseFor(t)
  const lines: string[] = []
  const { pod, gateway, admin } = await podOn(t, url, CLOSED, { lines })
  const tables = routeTables()
  const ports: readonly Port[] = [
    { url: gateway, routes: tables[4400] },
    { url: admin, routes: tables[4401] },
  ]
  return { url, pod, ports, lines }
}

/** Creates a key once for each owner and list of scopes. */
function keysOf(pod: Pod) {
  const made = new Map<string, Promise<string>>()
  return (owner: 'tenant' | 'operator', scopes: readonly string[]): Promise<string> => {
    const [id, tenant] = [`${owner} ${scopes.join()}`, owner === 'tenant' ? 'dev' : undefined]
    const name = `key-${made.size}`
    const key = made.get(id) ?? pod.keys.create({ tenant, name, scopes }).then((created) => created.key)
    made.set(id, key)
    return key
  }
}

function otherPort(owner: 'tenant' | 'operator') {
  const other = owner === 'tenant' ? 'operator' : 'tenant'
  return [other, ALL[other] as Scope[]] as const
}

async function statusOf(url: string, route: Route, key?: string): Promise<number> {
  const { path, init } = plainRequest(route, KNOWN)
  const headers = { ...init.headers, ...(key !== undefined && { authorization: `Bearer ${key}` }) }
  const answer = await fetch(`${url}${path}`, { ...init, headers })
  await answer.body?.cancel()
  if (answer.status === 401) assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
  return answer.status
}

async function listSessions([gateway]: readonly Port[], key: string) {
  const answer = await fetch(`${gateway!.url}/v1/sessions`, { headers: { authorization: `Bearer ${key}` } })
  return { status: answer.status, text: await answer.text() }
}
