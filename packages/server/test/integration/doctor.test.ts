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
import {
  insertKey,
  LAST,
  OF_SERVER,
  PASSWORD,
  RED,
  STRONG,
  WARNINGS,
  type Case,
  type Place,
} from '../support/doctor.ts'
import { blocksIn } from '../support/guide.ts'
import { OF_CLUSTER, podOn } from '../support/pod.ts'
import { proxyFor } from '../support/proxy.ts'
import { talkOn } from '../support/talk.ts'
import { typing } from '../support/terminal.ts'

const OLDER = migrationFiles().filter(({ number }) => number <= 21)

/** What the server of the tests cannot mend, and is allowed. */
const ALWAYS = ['fsync', 'synchronous-commit', 'standbys']

/** Makes a database healthy again, for a role that was just created. */
const reset = ({ role, database }: Pick<Place, 'role' | 'database'>) => `
  alter database ${database} reset all; alter database ${database} connection limit -1;
  delete from fleetline.pods; delete from fleetline.agents; delete from fleetline.api_keys; ${insertKey('backend')}
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
    assert.equal(code, EXIT.notClean)
  }))

test('S25: doctor warns of what does not keep a pod from working', (t) =>
  tryEach(t, WARNINGS, async ({ aheadMs = 0, names, says }, place) => {
    const { code, namesOf, sentenceOf, out } = await examine(place, { aheadMs })
    const warned = namesOf('warn').filter((name) => !ALWAYS.includes(name))
    assert.deepEqual(warned, names, out)
    assert.match(sentenceOf(names.at(-1)!), says)
    assert.deepEqual([namesOf('red'), code], [[], EXIT.done])
  }))

test('S25: doctor without a schema, and with a schema from before API keys, leaves out what it cannot examine', async (t) => {
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

test('S25: doctor judges TLS by a connection that works, and the settings without one', async (t) => {
  const place = await placeFor(t)
  await place.run(reset(place))
  const { url: here } = await proxyFor(t, place.url)
  const elsewhere = await examine({ ...place, url: here.replace('127.0.0.1', '0.0.0.0') })
  assert.deepEqual(elsewhere.namesOf('red'), ['tls'], elsewhere.out)
  assert.match(elsewhere.sentenceOf('tls'), /0\.0\.0\.0 does not use TLS.*sslmode=verify-full/)
  for (const url of [
    'postgres://app@0.0.0.0:1/app?sslmode=verify-full',
    `${place.url}?sslkey=/nowhere/key.pem`,
  ])
    assert.deepEqual(
      (await examine({ ...place, url })).findings.map(({ name }) => name),
      ['database', 'origins', 'secrets', 'token-keys'],
    )
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
