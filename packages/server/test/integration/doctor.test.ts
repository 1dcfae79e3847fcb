// S25: `fleetline doctor` on real PostgreSQL. Each case breaks one thing, and the command names it and its remedy. The server of the
// tests has fsync off and does not wait for its disk, so both are allowed by name.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import pg from 'pg'
import { createDoctor } from '../../src/cli/doctor.ts'
import { EXIT } from '../../src/cli/output.ts'
import type { Flags } from '../../src/config.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Finding } from '../../src/safety/finding.ts'
import { judgeStandbys } from '../../src/safety/standbys.ts'
import { migrateUp, migrationFiles } from '../../src/store/migrate.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { blocksIn } from '../support/guide.ts'
import { OF_CLUSTER, podOn } from '../support/pod.ts'
import { talkOn } from '../support/talk.ts'
import { typing } from '../support/terminal.ts'

const OF_SERVER = 'fsync,synchronous-commit'
const STRONG = randomBytes(32).toString('base64')
const PASSWORD = 'hunter2'
const LAST = migrationFiles().at(-1)!.number
const OLDER = migrationFiles().filter(({ number }) => number <= 21)

type Place = {
  readonly role: string
  readonly database: string
  readonly url: string
  /** Runs statements as the superuser. */
  readonly run: (text: string) => Promise<unknown>
}
type Case = {
  readonly what: string
  /** Breaks it. `RESET` mends it. */
  readonly sql?: (place: Place) => string
  readonly flags?: (place: Place) => Flags
  readonly aheadMs?: number
  /** The names of the red lines, or of the new warnings. */
  readonly names: readonly string[]
  /** What the line of the last name says, with its remedy. */
  readonly says: RegExp
}

const key = (name: string, { created = '1 hour', expires = '300 days' } = {}) =>
  `insert into fleetline.api_keys (id, tenant, name, digest, scopes, created_at, expires_at)
   values ('${randomBytes(8).toString('hex')}', 1, '${name}', '', '{}', now() - interval '${created}', now() + interval '${expires}');`
const AGENT = `insert into fleetline.agents (tenant, name, url, secret) values (1, 'a', 'https://a.example', '');`
const NO_KEYS = 'delete from fleetline.api_keys;'

const RED: readonly Case[] = [
  {
    what: 'nobody listens',
    flags: () => ({ databaseUrl: `postgres://app:${PASSWORD}@localhost:1/app` }),
    names: ['database'],
    says: /localhost:1\/app does not answer: .*ECONNREFUSED.* Start PostgreSQL, or set DATABASE_URL/,
  },
  {
    what: 'another host without TLS',
    flags: () => ({ databaseUrl: `postgres://app:${PASSWORD}@db.invalid/app` }),
    names: ['database', 'tls'],
    says: /db\.invalid does not use TLS.*sslmode=verify-full/,
  },
  {
    what: 'a certificate that is not there',
    flags: () => ({ databaseUrl: `postgres://app:${PASSWORD}@db.invalid/app?sslrootcert=/nowhere/ca.pem` }),
    names: ['database'],
    says: /cannot be used: .*\/nowhere\/ca\.pem.* Correct the parameters/,
  },
  {
    what: 'a database that does not exist',
    flags: ({ url }) => ({ databaseUrl: url.replace(/[^/]*$/, 'nowhere') }),
    names: ['database'],
    says: /refuses the connection: .*"nowhere".* Create the database/,
  },
  {
    what: 'a role that may not connect',
    sql: ({ role }) => `alter role ${role} nologin`,
    names: ['database'],
    says: /not permitted to log in.* Correct the user in DATABASE_URL/,
  },
  {
    what: 'other hosts may connect, without a key',
    sql: () => NO_KEYS,
    flags: () => ({ host: '0.0.0.0' }),
    names: ['authentication'],
    says: /no live API key.* fleetline keys create/,
  },
  {
    what: 'pages of every origin',
    flags: () => ({ corsOrigins: '*' }),
    names: ['origins'],
    says: /every origin.* FLEETLINE_CORS_ORIGINS/,
  },
  {
    what: 'a key of fleetline dev',
    flags: () => ({ tokenKeys: `dev:${STRONG}` }),
    names: ['secrets'],
    says: /tokenKeys can be guessed.* openssl rand/,
  },
  {
    what: 'fsync',
    flags: () => ({ allowInsecure: 'synchronous-commit' }),
    names: ['fsync'],
    says: /fsync is off.* Set fsync = on/,
  },
  {
    what: 'synchronous_commit',
    flags: () => ({ allowInsecure: 'fsync' }),
    names: ['synchronous-commit'],
    says: /is local.* alter role \w+ set synchronous_commit = on/,
  },
  {
    what: 'a superuser',
    sql: ({ role }) => `alter role ${role} superuser`,
    names: ['superuser'],
    says: /is a superuser.* create role/,
  },
  {
    what: 'standbys that are not connected',
    sql: ({ database }) => `alter database ${database} set synchronous_commit = on`,
    flags: () => ({ allowInsecure: 'fsync' }),
    names: ['standbys'],
    says: /ANY 1 \(nobody\), and 0 of these standbys are connected\. Every commit waits\. Start the standbys/,
  },
  {
    what: 'a server that takes no writes',
    sql: ({ role }) => `alter role ${role} set default_transaction_read_only = on`,
    names: ['standbys'],
    says: /takes no writes.* Set default_transaction_read_only to off/,
  },
  {
    what: 'a role that may not insert',
    sql: ({ role }) => `revoke insert on fleetline.messages, fleetline.turns from ${role}`,
    names: ['rights'],
    says: /lacks 2 rights.* insert on the table messages.*: grant insert on table fleetline\.messages, fleetline\.turns to \w+;$/,
  },
  {
    what: 'a role without the schema',
    sql: ({ role }) => `revoke usage on schema fleetline from ${role}`,
    names: ['rights'],
    says: /lacks 1 right .*: grant usage on schema fleetline to \w+;$/,
  },
  {
    what: 'a role that may not read keys and migrations',
    sql: ({ role }) => `revoke select on fleetline.migrations, fleetline.api_keys from ${role}`,
    names: ['rights'],
    says: /grant select on table fleetline\.api_keys, fleetline\.migrations to \w+;$/,
  },
  {
    what: 'a role that may not use the sequence and the functions',
    sql: ({ role }) =>
      `revoke all on sequence fleetline.place from ${role}; revoke all on all functions in schema fleetline from ${role}, public`,
    names: ['rights'],
    says: /grant usage on sequence fleetline\.place to \w+; grant execute on function fleetline\.make_partitions.*turn_track to/,
  },
  {
    what: 'a clock that is ahead',
    aheadMs: 31_000,
    names: ['clock'],
    says: /3[01]\.\d s ahead of the clock of the database\. Synchronize both clocks/,
  },
  {
    what: 'a clock that is behind',
    aheadMs: -40_000,
    names: ['clock'],
    says: /(39|40)\.\d s behind/,
  },
  {
    what: 'a role with too few connections',
    sql: ({ role }) => `alter role ${role} connection limit 13`,
    names: ['connections'],
    says: /need 14 connections.* The role \w+ allows 13\. Lower FLEETLINE_POOL_SIZE .*alter role \w+ connection limit 18;$/,
  },
  {
    what: 'a database with too few connections for one more pod',
    sql: ({ database }) =>
      `alter database ${database} connection limit 30;
       insert into fleetline.pods (name, version) values ('a', '1'), ('b', '1');
       insert into fleetline.pods (name, version, beat_at) values ('silent', '1', now() - interval '1 hour')`,
    names: ['connections'],
    says: /live pods: 2\. With one more they need 42 .* The database \w+ allows 30\. .*alter database \w+ connection limit 54;$/,
  },
  {
    what: 'a server with too few connections',
    sql: () => `insert into fleetline.pods (name, version) select n, '1' from generate_series(1, 15) n`,
    names: ['connections'],
    says: /live pods: 15\. .* need 224 .* The server allows 197\. .*raise max_connections/,
  },
  {
    what: 'an older schema',
    sql: () => `delete from fleetline.migrations where number = ${LAST}`,
    names: ['schema'],
    says: new RegExp(`schema is at ${LAST - 1}, this release needs ${LAST}\\. Run fleetline migrate up`),
  },
  {
    what: 'a newer schema',
    sql: () =>
      `insert into fleetline.migrations (number, name, checksum, pods_from) values (999, 'new', '', 999)`,
    names: ['schema'],
    says: /needs pods from migration 999 on.* Deploy a newer release/,
  },
  {
    what: 'agents that cannot be called',
    sql: () => AGENT,
    flags: () => ({ secretsKey: '' }),
    names: ['secrets-key'],
    says: /FLEETLINE_SECRETS_KEY is empty, .*URLs: 1\)\. Set FLEETLINE_SECRETS_KEY/,
  },
]

const WARNINGS: readonly Case[] = [
  {
    what: 'no key',
    sql: () => NO_KEYS,
    names: ['keys'],
    says: /no live API key.* fleetline keys create backend/,
  },
  {
    what: 'a key that expires soon; another has a successor',
    sql: () =>
      key('cron', { expires: '13 days' }) +
      key('web', { expires: '1 day' }) +
      key('web', { created: '1 day' }),
    names: ['keys'],
    says: /4 live API keys; within 14 days the last key expires of cron of tenant dev\. Create a successor/,
  },
  {
    what: 'a rotation that has not ended',
    sql: () => key('web', { created: '20 days' }) + key('web', { created: '8 days' }),
    names: ['keys'],
    says: /for more than 7 days there have been two live keys of web of tenant dev\. .* fleetline keys revoke ID/,
  },
  {
    what: 'few connections left',
    sql: ({ role }) => `alter role ${role} connection limit 17`,
    names: ['connections'],
    says: /allows 17\. .* connection limit 18;$/,
  },
  { what: 'a clock that is 6 s off', aheadMs: -6_000, names: ['clock'], says: /behind.* with NTP/ },
]
/** What the server of the tests cannot mend, and is allowed. */
const ALWAYS = ['fsync', 'synchronous-commit', 'standbys']

/** Makes a database healthy again, for a role that was just created. */
const reset = ({ role, database }: Pick<Place, 'role' | 'database'>) => `
  alter database ${database} reset all; alter database ${database} connection limit -1;
  delete from fleetline.pods; delete from fleetline.agents; delete from fleetline.api_keys; ${key('backend')}
  delete from fleetline.migrations where number > ${LAST};
  insert into fleetline.migrations (number, name, checksum, pods_from) values (${LAST}, '', '', 17) on conflict do nothing;
  grant usage on schema fleetline to ${role}; grant all on all tables in schema fleetline to ${role};
  grant all on all sequences in schema fleetline to ${role}; grant all on all functions in schema fleetline to ${role}`

/** A database, and a role without rights. */
async function placeFor(t: TestContext, template?: string): Promise<Place> {
  const url = await databaseFor(t, template)
  const client = new pg.Client(url)
  await client.connect()
  atEnd(t, () => client.end())
  return asNewRole({ role: '', url, database: url.split('/').at(-1)!, run: (text) => client.query(text) })
}

async function asNewRole(place: Place): Promise<Place> {
  const role = `r_${randomBytes(6).toString('hex')}`
  await place.run(`create role ${role} login password '${PASSWORD}'`)
  return { ...place, role, url: place.url.replace(/\/\/[^@]*@/, `//${role}:${PASSWORD}@`) }
}

async function examine(
  { url }: Place,
  { flags = {}, aheadMs = 0 }: { flags?: Flags; aheadMs?: number } = {},
) {
  const clock = systemClock()
  const doctor = createDoctor({ ...clock, now: () => clock.now() + aheadMs })
  const given = { databaseUrl: url, allowInsecure: OF_SERVER, secretsKey: STRONG, ttlMs: '60000', ...flags }
  const { code, out } = await typing([doctor], 'doctor')({ flags: given, json: true }, '')
  for (const secret of [PASSWORD, STRONG]) assert.ok(!out.includes(secret), 'a secret is shown')
  const findings = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Finding)
  const namesOf = (wanted: Finding['state']) =>
    findings.filter(({ state }) => state === wanted).map(({ name }) => name)
  const sentenceOf = (name: string) => {
    const { found, remedy } = findings.find((one) => one.name === name)!
    return `${found}. ${remedy}`
  }
  return { code, out, findings, namesOf, sentenceOf }
}

/** Breaks one thing after the other in one database. */
async function tryEach(
  t: TestContext,
  cases: readonly Case[],
  check: (one: Case, place: Place) => Promise<void>,
) {
  const first = await placeFor(t)
  for (const one of cases)
    await t.test(one.what, async () => {
      const place = await asNewRole(first)
      await place.run(reset(place))
      if (one.sql) await place.run(one.sql(place))
      await check(one, place)
    })
}

test('S25: doctor has one red line for each thing that is broken, and says what to do', (t) =>
  tryEach(t, RED, async ({ flags, aheadMs = 0, names, says }, place) => {
    const { code, namesOf, sentenceOf, out } = await examine(place, { flags: flags?.(place) ?? {}, aheadMs })
    assert.deepEqual(namesOf('red'), names, out)
    assert.match(sentenceOf(names.at(-1)!), says)
    assert.equal(code, EXIT.unclean)
  }))

test('S25: doctor warns of what does not keep a pod from working', (t) =>
  tryEach(t, WARNINGS, async ({ aheadMs = 0, names, says }, place) => {
    const { code, namesOf, sentenceOf, out } = await examine(place, { aheadMs })
    const warned = namesOf('warn').filter((name) => !ALWAYS.includes(name))
    assert.deepEqual(warned, names, out)
    assert.match(sentenceOf(names.at(-1)!), says)
    assert.deepEqual([namesOf('red'), code], [[], EXIT.done])
  }))

test('S25: doctor without a schema, and with one of before API keys, leaves out what it cannot examine', async (t) => {
  const empty = await placeFor(t, 'template1')
  const none = await examine(empty)
  assert.deepEqual(none.namesOf('red'), ['schema'])
  assert.match(none.sentenceOf('schema'), /there is no schema yet\. Run fleetline migrate up/)
  await migrateUp({ databaseUrl: empty.url.replace(/\/\/[^@]*@/, '//postgres@'), migrations: OLDER })
  await empty.run(`grant usage on schema fleetline to ${empty.role}; grant all on all tables in schema fleetline to ${empty.role};
    grant all on all sequences in schema fleetline to ${empty.role}; grant all on all functions in schema fleetline to ${empty.role}`)
  const old = await examine(empty)
  assert.deepEqual(old.namesOf('red'), ['schema'], old.out)
  assert.match(old.sentenceOf('schema'), /schema is at 21, this release needs .* Run fleetline migrate up/)
})

test('S25: doctor on a healthy database: every check once, nothing red, exit code 0', async (t) => {
  const place = await placeFor(t)
  await place.run(reset(place))
  const { code, findings, namesOf, sentenceOf } = await examine(place)
  assert.equal(code, EXIT.done)
  assert.deepEqual(namesOf('warn').toSorted(), ALWAYS.toSorted())
  assert.match(sentenceOf('fsync'), /fsync is off, allowed by --allow-insecure fsync\. Set fsync = on/)
  const checks =
    'database authentication origins secrets tls fsync synchronous-commit superuser postgres-version standbys rights clock connections schema keys secrets-key token-keys'
  assert.deepEqual(
    findings.map(({ name }) => name),
    checks.split(' '),
  )
  for (const { state, remedy } of findings) assert.equal(remedy === undefined, state === 'ok')
  const flags = { databaseUrl: place.url, allowInsecure: OF_SERVER, secretsKey: STRONG }
  const { out, err } = await typing([createDoctor(systemClock())], 'doctor')({ flags, isTTY: true }, '')
  assert.match(out, /^STATE {2}NAME +FOUND\nok +database +PostgreSQL at \S+ answers: \d+ ms to connect/)
  assert.match(err, /^17 checks: 0 red, 3 warn\.$/m)
})

test('S25: a role with the rights that doctor names, and no other, runs a pod', async (t) => {
  const place = await placeFor(t)
  const { findings } = await examine(place)
  const { remedy } = findings.find(({ name }) => name === 'rights')!
  await place.run(remedy!.replace('As the owner of the schema: ', ''))
  assert.deepEqual((await examine(place)).namesOf('red'), [])
  const flags = { demoAgent: 'yes', allowInsecure: `authentication,${OF_CLUSTER}` }
  const { gateway } = await podOn(t, place.url, flags)
  const talk = await talkOn(t, { url: place.url, gateway, agent: 'demo' })
  const { turn } = await talk.send('good morning')
  assert.equal((await talk.ended(turn!)).state, 'done')
})

test('S25: the guide to doctor shows every check, and the rights of a role', async (t) => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/guides/doctor.md'), 'utf8')
  const place = await placeFor(t)
  const [statements] = blocksIn(page, 'A role without the schema')
  await place.run(statements!.text.replaceAll('to app;', `to ${place.role};`))
  const { findings, namesOf } = await examine(place)
  assert.deepEqual(namesOf('red'), [])
  const [listing] = blocksIn(page, 'Run it')
  const shown = Array.from(listing!.text.matchAll(/^(?:ok|warn|red) +(\S+)/gm), ([, name]) => name)
  const names = findings.map(({ name }) => name)
  assert.deepEqual(shown, names)
  const table = page.split('## What it checks')[1]!
  for (const name of names) assert.ok(table.includes(`\`${name}\``), name)
})

test('S25: doctor counts the standbys that commits wait for', () => {
  const judged = (wanted: string, connected: readonly string[], synchronousCommit = 'on') =>
    judgeStandbys({ isStandby: false, isReadOnly: false, synchronousCommit, wanted, connected })
  assert.match(judged('', []).found, /commits wait for no standby/)
  const states = [
    judged('', []),
    judged('ANY 1 (s1, s2)', ['s2', 'backup']),
    judged('ANY 2 (s1, s2)', ['s2', 'backup']),
    judged('first 1 ("S-1", s2)', ['s-1']),
    judged('2 (*)', ['a', 'b']),
    judged('s1, s2', ['s2']),
    judged('s1, s2', []),
    judged('s1', [], 'off'),
  ]
  assert.deepEqual(
    states.map(({ state }) => state),
    ['ok', 'ok', 'red', 'ok', 'ok', 'ok', 'red', 'warn'],
  )
  const standby = { isStandby: true, isReadOnly: false, synchronousCommit: 'on', wanted: '', connected: [] }
  assert.match(judgeStandbys(standby).found, /the server is a standby/)
})
