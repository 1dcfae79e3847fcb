// What `fleetline doctor` finds: each case breaks one thing in a healthy database, or in the settings. The server of the tests has fsync
// off and does not wait for its disk, so both are allowed by name.
import { randomBytes } from 'node:crypto'
import type { Flags } from '../../src/config.ts'
import { migrationFiles } from '../../src/store/migrate.ts'

export const OF_SERVER = 'fsync,synchronous-commit'
export const STRONG = randomBytes(32).toString('base64')
export const PASSWORD = 'hunter2'
export const LAST = migrationFiles().at(-1)!.number

export type Place = {
  readonly role: string
  readonly database: string
  readonly url: string
  /** Runs statements as the superuser. */
  readonly run: (text: string) => Promise<unknown>
}
export type Case = {
  readonly what: string
  /** Breaks it. Each case starts with a healthy database and a new role. */
  readonly sql?: (place: Place) => string
  readonly flags?: (place: Place) => Flags
  readonly aheadMs?: number
  /** The names of the red lines, or of the new warnings. */
  readonly names: readonly string[]
  /** What the line of the last name says, with its remedy. */
  readonly says: RegExp
}

export const insertKey = (name: string, { created = '1 hour', expires = '300 days' } = {}) =>
  `insert into fleetline.api_keys (id, tenant, name, digest, scopes, created_at, expires_at)
   values ('${randomBytes(8).toString('hex')}', 1, '${name}', '', '{}', now() - interval '${created}', now() + interval '${expires}');`
const AGENT = `insert into fleetline.agents (tenant, name, url, secret) values (1, 'a', 'https://a.example', '');`
const NO_KEYS = 'delete from fleetline.api_keys;'

export const RED: readonly Case[] = [
  {
    what: 'nobody listens',
    flags: () => ({ databaseUrl: `postgres://app:${PASSWORD}@localhost:1/app` }),
    names: ['database'],
    says: /localhost:1\/app does not answer: .*ECONNREFUSED.* Start PostgreSQL, or set DATABASE_URL/,
  },
  {
    what: 'a server without TLS',
    flags: ({ url }) => ({ databaseUrl: `${url}?sslmode=require` }),
    names: ['database'],
    says: /does not offer TLS: .* Set ssl = on in postgresql\.conf/,
  },
  {
    what: 'a certificate that is not there',
    flags: () => ({ databaseUrl: `postgres://app:${PASSWORD}@db.invalid/app?sslrootcert=/nowhere/ca.pem` }),
    names: ['database'],
    says: /names a file that does not exist: sslrootcert=\/nowhere\/ca\.pem\. Correct DATABASE_URL, the file that it names, or PGPORT/,
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
    says: /not permitted to log in.* alter role ROLE login\. Or name another user in DATABASE_URL/,
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
    says: /FLEETLINE_TOKEN_KEYS contains the key dev.* openssl rand/,
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
    says: /grant usage on sequence fleetline\.place to \w+; grant execute on function fleetline\.make_partitions.*compact_track to/,
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

export const WARNINGS: readonly Case[] = [
  {
    what: 'no key',
    sql: () => NO_KEYS,
    names: ['keys'],
    says: /no live API key.* fleetline keys create backend/,
  },
  {
    what: 'a key that expires soon; another has a successor',
    sql: () =>
      insertKey('cron', { expires: '13 days' }) +
      insertKey('web', { expires: '1 day' }) +
      insertKey('web', { created: '1 day' }),
    names: ['keys'],
    says: /4 live API keys; these names have no key that lives longer than 14 days: cron of tenant dev\. Create a successor/,
  },
  {
    what: 'a rotation that has not ended',
    sql: () => insertKey('web', { created: '20 days' }) + insertKey('web', { created: '8 days' }),
    names: ['keys'],
    says: /these names have had more than one live key for over 7 days: web of tenant dev\. .* fleetline keys revoke ID/,
  },
  {
    what: 'few connections left',
    sql: ({ role }) => `alter role ${role} connection limit 17`,
    names: ['connections'],
    says: /allows 17\. .* connection limit 18;$/,
  },
  { what: 'a clock that is 6 s off', aheadMs: -6_000, names: ['clock'], says: /behind.* with NTP/ },
]
