// S25: what keeps a pod from starting because it is not secure, each on its own, and allowed by its name. The server of the tests
// has fsync off, does not wait for its disk, and its role is a superuser: three of the checks find what they look for.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig, type Flags } from '../../src/config.ts'
import { INSECURE_NAMES, type InsecureName } from '../../src/lib/insecure.ts'
import { checksOf } from '../../src/safety/checks.ts'
import { createStartCheck } from '../../src/safety/start-check.ts'
import { readServer, type ServerFacts } from '../../src/safety/server.ts'
import { valueOf, type Database } from '../../src/store/database.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { databaseFor } from '../support/database.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'

const SAFE: ServerFacts = {
  version: 150_000,
  role: 'app',
  isSuperuser: false,
  fsync: 'on',
  synchronousCommit: 'on',
}
const OTHER_HOST = 'postgres://app@db.internal/app'
const WEAK = Buffer.alloc(32, 48).toString('base64')
const STRONG = Buffer.from(Array.from({ length: 32 }, (_, index) => index * 7)).toString('base64')

type Case = { readonly flags?: Flags; readonly server?: Partial<ServerFacts>; readonly found: RegExp }
const CASES: Readonly<Record<InsecureName, readonly Case[]>> = {
  authentication: [
    { flags: { host: '0.0.0.0' }, found: /listens on 0\.0\.0\.0, and there is no live API key/ },
    { flags: { host: '::' }, found: /keys create backend/ },
    { flags: { host: 'pod-1.internal' }, found: /pod-1\.internal/ },
  ],
  origins: [{ flags: { corsOrigins: 'https://app.example,*' }, found: /pages of every origin/ }],
  secrets: [
    {
      flags: { tokenKeys: `dev:${STRONG}` },
      found:
        /: FLEETLINE_TOKEN_KEYS contains the key dev, which is that of fleetline dev\. Replace the key dev in FLEETLINE_TOKEN_KEYS .*, with another id than dev\.$/m,
    },
    {
      flags: { tokenKeys: `new:${STRONG},old:${WEAK}` },
      found:
        /: the key old in FLEETLINE_TOKEN_KEYS can be guessed\. Replace the key old in FLEETLINE_TOKEN_KEYS .* openssl rand -base64 32\.$/m,
    },
    {
      flags: { tokenKeys: `dev:${STRONG},old:${WEAK}` },
      found:
        /: the key old in .*, and FLEETLINE_TOKEN_KEYS contains the key dev, .* the key dev in .* the key old in/,
    },
    {
      flags: { secretsKey: WEAK },
      found:
        /: FLEETLINE_SECRETS_KEY can be guessed\. Set FLEETLINE_SECRETS_KEY .* new secret with fleetline agents set NAME --secret-file FILE, or remove and add it\.$/m,
    },
  ],
  tls: [
    { flags: { databaseUrl: OTHER_HOST }, found: /db\.internal does not use TLS.+sslmode=verify-full/ },
    { flags: { databaseUrl: `${OTHER_HOST}?sslmode=disable` }, found: /does not use TLS/ },
  ],
  fsync: [{ server: { fsync: 'off' }, found: /fsync is off/ }],
  'synchronous-commit': [
    { server: { synchronousCommit: 'local' }, found: /synchronous_commit is local/ },
    { server: { synchronousCommit: 'off' }, found: /alter role app set synchronous_commit/ },
  ],
  superuser: [{ server: { isSuperuser: true }, found: /the role app is a superuser.*create role/ }],
  'postgres-version': [{ server: { version: 140_012 }, found: /PostgreSQL is 14\.12/ }],
}

/** Starts the guard of a pod that is safe but for this. Resolves to the lines of its log. */
async function guardWith(allowed: string, { flags = {}, server = {} }: Case): Promise<string[]> {
  const lines: string[] = []
  const facts = { ...SAFE, ...server }
  const database = { transaction: async () => ({ type: 'committed', value: facts }) } as unknown as Database
  const guard = createStartCheck({
    config: loadConfig({ environment: {}, flags: { ...flags, allowInsecure: allowed } }),
    database,
    keys: { hasLogin: async () => false },
    log: createLog({ level: 'info', destination: { write: (line) => void lines.push(line) } }),
  })
  await guard.start()
  return lines
}

for (const name of INSECURE_NAMES)
  test(`S25: ${name} keeps a pod from starting, and --allow-insecure ${name} lets it start`, async () => {
    const others = INSECURE_NAMES.filter((other) => other !== name).join()
    for (const one of CASES[name]) {
      const refusal = await guardWith(others, one).then(
        () => assert.fail(`${name}: it starts`),
        (error: Error) => error.message,
      )
      assert.match(refusal, one.found)
      assert.match(
        refusal,
        new RegExp(`start it all the same: --allow-insecure ${name}, or FLEETLINE_ALLOW_INSECURE=${name}$`),
      )
      const lines = await guardWith(name, one)
      assert.match(lines.join(''), new RegExp(`"needed":\\["${name}"\\].*"may be insecure"`))
    }
  })

test('S25: a safe pod starts, and logs nothing about safety', async () => {
  const flags = {
    host: '127.0.0.1',
    tokenKeys: `a:${STRONG}`,
    secretsKey: STRONG,
    corsOrigins: 'https://app.example',
  }
  for (const databaseUrl of [
    'postgres:///app?host=/var/run',
    'postgres://127.0.0.1/app',
    `${OTHER_HOST}?sslmode=require`,
  ])
    assert.deepEqual(await guardWith('', { flags: { ...flags, databaseUrl }, found: /./ }), [])
})

test('S25: a pod names all reasons at once, and listens on all addresses once a key exists', async (t) => {
  const url = await databaseFor(t)
  const refused = await podOn(t, url, { ...CLOSED, host: '0.0.0.0', allowInsecure: '' }).then(
    () => assert.fail('it starts'),
    (error: Error) => error.message,
  )
  for (const name of ['authentication', 'fsync', 'synchronous-commit', 'superuser', 'secrets'])
    assert.match(refused, new RegExp(`${name}: `))
  const { pod } = await podOn(t, url, CLOSED)
  const { key, entry } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const open = { ...CLOSED, host: '0.0.0.0' }
  const { gateway } = await podOn(t, url, open)
  const asked = async (headers: Record<string, string>) =>
    (await fetch(`${gateway}/v1/sessions`, { headers })).status
  assert.deepEqual([await asked({}), await asked({ authorization: `Bearer ${key}` })], [401, 200])
  await pod.keys.revoke(entry.id)
  await assert.rejects(podOn(t, url, open), /there is no live API key/)
})

test('S25: facts about the server are those of the server', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const server = valueOf(await database.transaction(readServer), 'no facts')
  const config = loadConfig({ environment: {}, flags: {} })
  const red = checksOf({ config, server, hasLogin: false }).filter(({ isOk }) => !isOk)
  assert.deepEqual(
    red.map(({ name }) => name),
    ['fsync', 'synchronous-commit', 'superuser'],
  )
})
