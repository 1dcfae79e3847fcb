// A pod behind a pooler that pools by transaction. Everything works, and no setting of the pod stays on a connection. LISTEN
// cannot work there, and the pod says so.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { reportSchema } from '../../src/admin/readiness.ts'
import { migrateUp, migrationFiles } from '../../src/store/migrate.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { podOn } from '../support/pod.ts'
import { poolerFor } from '../support/pooler.ts'

const SIZE = 3

test('behind a pooler by transaction, a pod works, leaves no setting or lock behind, and says that hints are lost', async (t) => {
  const direct = await databaseFor(t, 'template1')
  const { url } = await poolerFor(t, direct, SIZE)
  const both = await Promise.all([migrateUp({ databaseUrl: url }), migrateUp({ databaseUrl: url })])
  assert.deepEqual(
    both.flat().toSorted(),
    migrationFiles().map(({ name }) => name),
  )
  const { gateway, admin } = await podOn(t, url, { hintPollMs: '50' })
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${gateway}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    assert.ok(answer.status < 300, `status ${answer.status}`)
    return (await answer.json()) as { session: string; seq: number }
  }
  const { session } = await post('/v1/sessions', {})
  for (let seq = 1; seq <= 20; seq += 1)
    assert.equal((await post(`/v1/sessions/${session}/messages`, { text: `n${seq}` })).seq, seq)
  await eventually(
    async () => {
      const { checks } = reportSchema.parse(await (await fetch(`${admin}/readyz`)).json())
      assert.deepEqual(
        { hints: checks['hints']?.state, database: checks['database']?.state },
        { hints: 'degraded', database: 'ok' },
      )
      assert.match(checks['hints']!.reason!, /pooler/)
    },
    { what: 'the pod to miss its own hints' },
  )
  for (const settings of await settingsOn(url))
    assert.deepEqual(settings, [], 'no setting stays on a connection')
  const LOCKS = `select count(*)::int as count from pg_locks where locktype = 'advisory'
                    and database = (select oid from pg_database where datname = current_database())`
  await eventually(
    async () =>
      assert.deepEqual((await onClient(direct, (client) => client.query(LOCKS))).rows, [{ count: 0 }]),
    { what: 'no lock to be held' },
  )
})

/** For each connection of the pooler, the settings that outlive a transaction. */
async function settingsOn(url: string): Promise<object[][]> {
  const all = Promise.withResolvers<void>()
  let inside = 0
  const look = (client: pg.Client) =>
    client.query('begin').then(async () => {
      if ((inside += 1) === SIZE) all.resolve()
      await all.promise // so that each client has its own connection
      const { rows } = await client.query<object>(
        `select name, setting from pg_settings where source = 'session'`,
      )
      await client.query('commit')
      return rows
    })
  return Promise.all(Array.from({ length: SIZE }, () => onClient(url, look)))
}

async function onClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url)
  await client.connect()
  return work(client).finally(() => client.end())
}
