// The way into the queue, on real PostgreSQL.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { formatId, TASK_LIMITS, uuidV7, type Id } from '@fleetline/protocol'
import pg from 'pg'
import { Rejected } from '../../src/errors.ts'
import type { Database, Query } from '../../src/store/database.ts'
import { migrateUp, migrationFiles } from '../../src/store/migrate.ts'
import { ENDED_BEFORE, ENQUEUE } from '../../src/task/enqueue.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { explaining } from '../support/plan.ts'
import { DONE, partsOn, queueOn, TENANT } from '../support/tasks.ts'

const WORK = { machine: 'work' }

function named(n: number): Id<'task'> {
  return formatId('task', 0, uuidV7(1_700_000_000_000 + n, new Uint8Array(10)))
}

async function clientOf(t: TestContext, url: string) {
  const client = new pg.Client(url)
  await client.connect()
  atEnd(t, () => client.end())
  const query: Query = async (text, values) => (await client.query(text, values && [...values])).rows
  return { client, query }
}

function isRejected(code: string, text: RegExp) {
  return (error: unknown) => error instanceof Rejected && error.code === code && text.test(error.message)
}

test('Q10: a task of a caller’s transaction exists exactly if that transaction commits, in any order of commits', async (t) => {
  const { url, enqueuer, tasks, newPod, claim } = await queueOn(t)
  const [pod, early, late] = [await newPod(), await clientOf(t, url), await clientOf(t, url)]
  const rolledBack = await clientOf(t, url)
  const into = async ({ client, query }: typeof early, input: string) => {
    await client.query('begin')
    await enqueuer.enqueueIn(query, TENANT, [{ ...WORK, input }])
  }
  await into(early, 'early')
  await into(late, 'late')
  await into(rolledBack, 'nothing')
  assert.deepEqual(await claim(pod), [], 'nothing is committed')
  await rolledBack.client.query('rollback')
  await late.client.query('commit')
  const [second] = await claim(pod)
  assert.equal(second!.input, 'late')
  await early.client.query('commit')
  const inputs = (await claim(pod)).map(({ input }) => input)
  assert.deepEqual(inputs, ['early'])
  assert.equal((await tasks()).length, 2)
})

test('a list is enqueued as a whole or not at all, and in its order', async (t) => {
  const { url, enqueuer, enqueue, tasks, newPod, claim } = await queueOn(t)
  const bad = [WORK, { machine: 'nobody-runs-this' }]
  await assert.rejects(
    enqueuer.enqueueAll(TENANT, bad),
    isRejected('not_found', /No pod has run nobody-runs-this/),
  )
  const twice = [1, 2].map(() => ({ ...WORK, id: named(1) }))
  await assert.rejects(enqueuer.enqueueAll(TENANT, twice), isRejected('conflict', /one id/))
  const { client, query } = await clientOf(t, url)
  await client.query('begin')
  await assert.rejects(enqueuer.enqueueIn(query, TENANT, bad), isRejected('not_found', /No pod/))
  await client.query('commit') // the rejection has not broken the caller's transaction
  assert.deepEqual(await tasks(), [])
  const enqueued = await enqueue(TASK_LIMITS.list)
  assert.equal(new Set(enqueued.map(({ id }) => id)).size, TASK_LIMITS.list)
  const inputs = (await claim(await newPod(), TASK_LIMITS.list)).map(({ input }) => input)
  assert.deepEqual(
    inputs,
    Array.from({ length: TASK_LIMITS.list }, (_, n) => n),
  )
})

test('plans: an enqueue looks up each track once, however long its list is', async (t) => {
  const { run } = await queueOn(t)
  const list = Array.from({ length: 200 }, (_, n) => uuidV7(n, new Uint8Array(10)))
  const all = (value: unknown) => list.map(() => value)
  const values = [
    list,
    all(1),
    all('default'),
    all('work'),
    all(null),
    all(3),
    all(null),
    all(null),
    all('{}'),
  ]
  const loopsOf = async (statement: string) => {
    const plans = await run(async (query) => {
      const explained = explaining(query)
      await explained.query(statement, values)
      return explained.plans
    })
    const nodes = plans[0]!.text
      .split('{"Node Type"')
      .filter((node) => node.includes('"Relation Name":"tracks"'))
    return Math.max(...nodes.map((node) => Number(/"Actual Loops":(\d+)/.exec(node)![1])))
  }
  assert.equal(await loopsOf(ENQUEUE), 1)
  assert.equal(await loopsOf(ENQUEUE.replaceAll(' materialized', '')), 200, 'mutant: one lookup per task')
})

test('Q1: a task with a given id is stored once, also when it is enqueued again after its end', async (t) => {
  const { enqueuer, tasks, history, newPod, claim, settle } = await queueOn(t)
  const spec = { ...WORK, id: named(1), input: { to: 'ada', n: 1 } }
  const both = await Promise.all([enqueuer.enqueue(TENANT, spec), enqueuer.enqueue(TENANT, spec)])
  assert.equal(both.filter(({ created }) => created).length, 1)
  assert.deepEqual(
    both.map(({ id }) => id),
    [spec.id, spec.id],
  )
  const again = () => enqueuer.enqueue(TENANT, { ...spec, input: { n: 1, to: 'ada' } })
  assert.deepEqual(await again(), { id: spec.id, created: false })
  const other = () => enqueuer.enqueue(TENANT, { ...spec, input: 'other' })
  await assert.rejects(other(), isRejected('conflict', /Another task/))
  const together = [1, 2].map((input) => enqueuer.enqueue(TENANT, { ...WORK, id: named(2), input }))
  const [first, second] = await Promise.allSettled(together)
  assert.deepEqual(
    { first: first?.status, second: second?.status },
    { first: 'fulfilled', second: 'rejected' },
    'two tasks with one id in one batch',
  )
  assert.deepEqual(
    (await tasks()).map(({ input }) => input).slice(1),
    [1],
    'the task that was acknowledged is the one that is stored',
  )

  const pod = await newPod()
  await settle(pod, (await claim(pod))[0]!, DONE)
  assert.deepEqual(await again(), { id: spec.id, created: false })
  await assert.rejects(other(), isRejected('conflict', /Another task/))
  assert.equal((await tasks()).length, 1)
  assert.equal((await history()).length, 1)
})

/** Enqueues three tasks. The answer to the first commit is lost; meanwhile the tasks may end. Counts live and ended tasks. */
async function answerLost(t: TestContext, { theyEnd = false, mutate = (text: string) => text } = {}) {
  const { database, tasks, history, newPod, claim, settle } = await queueOn(t)
  const pod = await newPod()
  let answers = 0
  const losing: Pick<Database, 'transaction'> = {
    transaction: async (work, options) => {
      const outcome = await database.transaction((query) => {
        const mutated: Query = (text, values) => query(mutate(text), values)
        return work(mutated)
      }, options)
      answers += 1
      if (answers > 1) return outcome
      if (theyEnd) for (const one of await claim(pod)) await settle(pod, one, DONE)
      return { type: 'unknown', error: new Error('the answer was lost') }
    },
  }
  assert.equal((await partsOn(losing).enqueue(3)).length, 3)
  return { live: (await tasks()).length, ended: (await history()).length }
}

test('Q1: an enqueue is sent again after a lost answer, and its tasks are stored once', async (t) => {
  assert.deepEqual(await answerLost(t), { live: 3, ended: 0 })
})

test('Q1: an enqueue that is sent again does not store tasks that have ended meanwhile', async (t) => {
  assert.deepEqual(await answerLost(t, { theyEnd: true }), { live: 0, ended: 3 })
})

test('mutant of Q1, an enqueue that does not look into the history: tasks that have ended are stored again', async (t) => {
  const blind = (text: string) => (text === ENDED_BEFORE ? 'select where $1::uuid[] is null' : text)
  assert.deepEqual(await answerLost(t, { theyEnd: true, mutate: blind }), { live: 3, ended: 3 })
})

test('S15: a task that cannot be stored is rejected alone, and the others in its batch are stored', async (t) => {
  const { enqueuer, tasks } = await queueOn(t)
  const cases: readonly (readonly [spec: object, code: string, text: RegExp])[] = [
    [{ input: 'a\0b' }, 'invalid', /input: the character U\+0000/],
    [{ input: { n: 1n } }, 'invalid', /input: cannot be written as JSON/],
    [{ input: () => 1 }, 'invalid', /input: cannot be written as JSON/],
    [{ input: 'x'.repeat(TASK_LIMITS.inputBytes) }, 'too_large', /input: over 262144 bytes/],
    [{ machine: 'a b' }, 'invalid', /machine: must match/],
    [{ queue: '' }, 'invalid', /queue: must match/],
    [{ queue: 'other' }, 'not_found', /No pod has run work in queue other yet/],
    [{ priority: 8 }, 'invalid', /priority: must be from 0 to 7/],
    [{ maxAttempts: 0 }, 'invalid', /maxAttempts: must be from 1 to 1000/],
    [{ runAt: new Date(Number.NaN) }, 'invalid', /runAt: must be a date/],
    [{ runAt: new Date(8.64e15) }, 'invalid', /runAt: must be a date from 1970 to 9999/],
    [{ runAt: new Date('9999-12-30') }, 'made', /./],
    [{ input: { n: Infinity } }, 'invalid', /input: a number is out of range/],
    [{ id: 'tsk_1' }, 'invalid', /id: is not the id of a task here/],
  ]
  const outcomes = await Promise.all(
    cases.map(async ([spec]) => {
      try {
        await enqueuer.enqueue(TENANT, { ...WORK, ...spec })
        return { code: 'made', message: 'made' }
      } catch (error) {
        assert.ok(error instanceof Rejected, String(error))
        return error
      }
    }),
  )
  for (const [index, [, code, text]] of cases.entries()) {
    assert.equal(outcomes[index]!.code, code, text.source)
    assert.match(outcomes[index]!.message, text)
  }
  assert.equal((await tasks()).length, 1)
})

/** Creates a role for this test, without any rights. */
async function createRole(t: TestContext, client: pg.Client, prefix: string) {
  const role = `${prefix}_${process.pid}`
  await client.query(`create role ${role}`)
  atEnd(t, async () => {
    await client.query(`reset role; drop owned by ${role}; drop role ${role}`)
  })
  return role
}

test('a program in any language can enqueue through fleetline.enqueue, with no other right than to call it', async (t) => {
  const { url, run, tasks, newPod, claim } = await queueOn(t)
  const { client } = await clientOf(t, url)
  const role = await createRole(t, client, 'caller')
  await client.query(`grant usage on schema fleetline to ${role}`)
  const call = (text: string) => client.query<{ id: string }>(`select fleetline.enqueue(${text}) as id`)
  await client.query(`set role ${role}`)
  await assert.rejects(call(`'default', 'work', '1'`), /permission denied/)
  await client.query(`reset role; select fleetline.grant_enqueue('${role}', 'dev'); set role ${role}`)
  const { rows } = await call(`'default', 'work', '{"n": 1}', '{"priority": 5, "max_attempts": 2}'`)
  assert.match(rows[0]!.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/)
  await call(`'default', 'work', '2', jsonb_build_object('run_at', now() + interval '1 hour')`)
  await assert.rejects(call(`'default', 'other', '1'`), /No pod has run other in queue default yet/)
  await assert.rejects(call(`'default', 'work', '1', '{"run_at": "infinity"}'`), /violates check constraint/)
  await assert.rejects(call(`'default', 'work', '1', '{"prio": 5}'`), /has no option prio/)
  await assert.rejects(
    call(`'default', 'work', '1', '{"tenant": "nobody"}'`),
    /may not enqueue for nobody, or there is no such tenant/,
  )
  await assert.rejects(call(`'default', 'work', to_jsonb(repeat('x', 262144))`), /over 262144 bytes/)
  await client.query('begin')
  await call(`'default', 'work', '3'`)
  await client.query('rollback')

  const pod = await newPod()
  const claimed = await claim(pod)
  assert.deepEqual(
    claimed.map(({ input, priority, maxAttempts }) => ({ input, priority, maxAttempts })),
    [{ input: { n: 1 }, priority: 5, maxAttempts: 2 }],
  )
  assert.deepEqual((await tasks()).map(({ state }) => state).toSorted(), ['claimed', 'waiting'])
  const { length } = await run((query) =>
    query(`select from fleetline.tasks where uuid_send(id) < '\\x0190'`),
  )
  assert.equal(length, 0, 'ids begin with the current time')
})

test('S1: a role can enqueue only for tenants that were granted to it or to a group of which it is a member', async (t) => {
  const { url, run } = await queueOn(t)
  const { client } = await clientOf(t, url)
  const [one, group] = [await createRole(t, client, 'one'), await createRole(t, client, 'team')]
  const asRole = async (text: string) => {
    await client.query(`set role ${one}`)
    return client
      .query(`select fleetline.enqueue('default', 'work', '1' ${text})`)
      .finally(() => client.query('reset role'))
  }
  const refused = { code: '42501' } // insufficient_privilege
  const inOther = `, '{"tenant": "other"}'`
  const tenants = async () =>
    (
      await run((query) =>
        query<{ name: string }>(`
        select n.name from fleetline.tasks t join fleetline.tenants n on n.id = t.tenant order by t.place`),
      )
    ).map(({ name }) => name)

  await client.query(`insert into fleetline.tenants (name) values ('other')`)
  await client.query(`grant usage on schema fleetline to ${one}`)
  await client.query(`grant execute on function fleetline.enqueue to ${one}`)
  await assert.rejects(asRole(''), refused, 'the right to execute grants no tenant')
  await client.query(`select fleetline.grant_enqueue('${one}', 'other')`)
  await asRole('')
  await asRole(inOther)
  await assert.rejects(asRole(`, '{"tenant": "dev"}'`), refused)
  await client.query(`select fleetline.grant_enqueue('${group}', 'dev'); grant ${group} to ${one}`)
  await assert.rejects(asRole(''), /may enqueue for several tenants: name one/)
  await asRole(`, '{"tenant": "dev"}'`)
  await assert.rejects(client.query(`select fleetline.revoke_enqueue('${one}', 'othre')`), /no tenant othre/)
  await assert.rejects(client.query(`select fleetline.revoke_enqueue('${one}_', 'other')`), /no role/)
  await assert.rejects(
    client.query(`set role ${one}; select fleetline.grant_enqueue('${one}', 'dev')`),
    /permission denied for function grant_enqueue/,
  )
  await client.query('reset role')
  await client.query(`select fleetline.revoke_enqueue('${one}', 'other')`)
  await assert.rejects(asRole(inOther), refused)
  const fromOwner = `select fleetline.revoke_enqueue(current_user, 'dev')`
  await assert.rejects(client.query(fromOwner), /owns the schema/)
  await client.query(`alter schema fleetline owner to ${group}`)
  await assert.rejects(client.query(fromOwner), /or its functions/)
  await client.query('alter schema fleetline owner to current_user')
  await client.query(`select fleetline.revoke_enqueue('${group}', 'dev')`)
  await client.query(`revoke usage on schema fleetline from ${one}, ${group}`)
  const { rows } = await client.query<{ acl: string }>(
    `select proacl::text as acl from pg_proc where pronamespace = 'fleetline'::regnamespace`,
  )
  assert.ok(
    !rows.some(({ acl }) => acl?.includes(one) || acl?.includes(group)),
    'no function still has a grant to these roles',
  )
  await client.query(`select fleetline.enqueue('default', 'work', '1', '{"tenant": "other"}')`)
  assert.deepEqual(await tenants(), ['other', 'other', 'dev', 'other'], 'the owner may use every tenant')
  await assert.rejects(client.query(`select fleetline.grant_enqueue('${one}', 'nobody')`), /no tenant nobody/)
})

test('S1: a role’s own rights count in its functions, whether another role calls them or a superuser’s ANALYZE', async (t) => {
  const { url, tasks } = await queueOn(t)
  const { client } = await clientOf(t, url)
  const [owner, web] = [await createRole(t, client, 'owner'), await createRole(t, client, 'web')]
  await client.query(`insert into fleetline.tenants (name) values ('other')`)
  await client.query(
    `select fleetline.grant_enqueue('${owner}', 'other'); create schema own authorization ${owner}`,
  )
  await client.query(`grant usage on schema own to ${web}; set role ${owner}`)
  // The superuser's ANALYZE runs own.trick as the owner of the table. A check of session_user would see the superuser.
  await client.query(`
    create function own.trick(n int) returns int immutable language plpgsql as $$ begin
      if session_user <> current_user then
        perform fleetline.enqueue('default', 'work', '"stolen"', '{"tenant": "dev"}');
      end if;
      return 1;
    exception when insufficient_privilege then return 0; end $$;
    create table own.bait (n int);
    create index on own.bait (own.trick(n));
    insert into own.bait values (1);
    create function own.order_one() returns uuid security definer language sql as
      $$ select fleetline.enqueue('default', 'work', '"theirs"') $$`)
  await client.query('reset role')
  await client.query('analyze own.bait')
  await client.query(`set role ${web}`)
  await client.query('select own.order_one()')
  await client.query('reset role')
  assert.deepEqual(
    (await tasks()).map(({ input }) => input),
    ['theirs'],
  )
})

test('roles that could execute fleetline.enqueue before migration 18 can enqueue for the tenant dev after it', async (t) => {
  const url = await databaseFor(t, 'template1')
  await migrateUp({ databaseUrl: url, migrations: migrationFiles().filter(({ number }) => number < 18) })
  const { client } = await clientOf(t, url)
  const [had, hadNot] = [await createRole(t, client, 'had'), await createRole(t, client, 'had_not')]
  await client.query(`grant execute on function fleetline.enqueue to ${had}`)
  await migrateUp({ databaseUrl: url })
  const { rows } = await client.query(
    `
    select rolname from pg_roles r, pg_proc p
     where p.proname = fleetline.function_of('dev') and rolname = any ($1) and has_function_privilege(r.oid, p.oid, 'execute')`,
    [[had, hadNot]],
  )
  assert.deepEqual(rows, [{ rolname: had }])
})
