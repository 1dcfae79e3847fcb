// S3: on every route that names a session, a turn or a task, one of another tenant is answered like one that does not exist, byte for
// byte but for the request id. The routes are those of the table: one that is added is asked too.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatId, parseId, type Session, type TaskSummary } from '@fleetline/protocol'
import { routeTables } from '../../../../scripts/reference.ts'
import { databaseFor } from '../support/database.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { idOf, sessionFor } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { queueOn } from '../support/tasks.ts'
import { conversationOn } from '../support/turns.ts'

const NOBODYS = '01980000-0000-7000-8000-000000000000'

/** What each route with a body is sent. */
const BODIES: Readonly<Record<string, object>> = {
  'POST /v1/sessions/:session/messages': { text: 'hello' },
  'POST /v1/sessions/:session/stop': { turn: formatId('turn', 0, NOBODYS), epoch: 1 },
}

test('S3: a session of another tenant cannot be told from one that does not exist, on any route', async (t) => {
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url)
  const database = await openDatabase(t, url)
  const theirs = await sessionFor(database, 'other')
  const foreign = idOf(theirs)
  const { session: own } = await makeSession(gateway)
  const absent = own.replace(/.{6}$/, '000000')

  assert.equal(await askAll(gateway, ':session', { foreign, absent }), 8)
  const name = `update fleetline.sessions set alias = 'theirs' where id = $1`
  await database.transaction((query) => query(name, [theirs.session]))
  assert.equal(await askAll(gateway, ':session', { foreign: 'theirs', absent: 'nobodys' }), 8)
  const { session: namesake } = await makeSession(gateway, { alias: 'theirs' })
  const listed = await call('GET', `${gateway}/v1/sessions`)
  assert.deepEqual(
    (listed.body as { sessions: Session[] }).sessions.map(({ session }) => session),
    [namesake, own],
  )
})

test('S3: neither can a task', async (t) => {
  const { url, database, enqueue, run, tasks } = await queueOn(t)
  const { gateway } = await podOn(t, url)
  const { tenant } = await sessionFor(database, 'other')
  const [theirs, own] = await enqueue(2)
  const give = `update fleetline.tasks set tenant = $1, state = 'dead' where id = $2`
  const { uuid } = parseId('task', theirs!.id)!
  await run((query) => query(give, [tenant, uuid]))
  const absent = own!.id.replace(/.{6}$/, '000000')
  assert.equal(await askAll(gateway, ':task', { foreign: theirs!.id, absent }), 2)
  assert.equal((await tasks()).find(({ id }) => id === uuid)?.state, 'dead', 'nobody revived it')
  const listed = await call('GET', `${gateway}/v1/tasks`)
  assert.deepEqual(
    (listed.body as { tasks: TaskSummary[] }).tasks.map(({ id }) => id),
    [own!.id],
  )
})

test('S3: neither can a turn', async (t) => {
  const { ask, key, run, url } = await conversationOn(t)
  const { gateway } = await podOn(t, url)
  const { tenant } = await sessionFor(await openDatabase(t, url), 'other')
  const asked = await ask('a')
  assert.ok(asked.type === 'stored' && asked.live)
  const foreign = formatId('turn', 0, asked.live.turn)
  const own = await call('GET', `${gateway}/v1/turns/${foreign}`)
  assert.deepEqual([own.status, own.body['session']], [200, idOf(key)])
  await run((query) => query('update fleetline.turns set tenant = $1', [tenant]))
  assert.equal(await askAll(gateway, ':turn', { foreign, absent: foreign.replace(/.{6}$/, '000000') }), 1)
})

/** Asks every route that names such a thing for both; answers how many there are. */
async function askAll(
  gateway: string,
  param: string,
  { foreign, absent }: Readonly<Record<'foreign' | 'absent', string>>,
): Promise<number> {
  const routes = routeTables()[4400].filter(({ path }) => path.includes(param))
  for (const { method, path, body } of routes) {
    const name = `${method} ${path}`
    const sent = BODIES[name]
    assert.equal(sent !== undefined, body !== undefined, `${name}: a body in this test, if it takes one`)
    const ask = async (id: string) => {
      const answer = await fetch(`${gateway}${path.replace(param, id).replace(':user', 'ada')}`, {
        method,
        ...(sent ? { body: JSON.stringify(sent), headers: { 'content-type': 'application/json' } } : {}),
      })
      const [text, requestId] = [await answer.text(), answer.headers.get('x-request-id')!]
      const headers = [...answer.headers].filter(([key]) => key !== 'x-request-id' && key !== 'date')
      return { status: answer.status, headers, text: text.replace(requestId, '') }
    }
    const [theirs, nobodys] = [await ask(foreign), await ask(absent)]
    assert.deepEqual([name, theirs], [name, nobodys])
    assert.equal(theirs.status, 404, name)
  }
  return routes.length
}
