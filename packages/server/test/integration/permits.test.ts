// Tasks and turns whose downstream pauses or is at its limit, on real pods.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { z } from 'zod'
import type { downstreamsSchema } from '../../src/admin/downstream-schemas.ts'
import { agent } from '../../src/agent/agent.ts'
import { DOWNSTREAMS } from '../../src/cli/downstreams.ts'
import { task } from '../../src/machine/definition.ts'
import { valueOf, type Query } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { providerOf } from '../support/provider.ts'
import { openDatabase } from '../support/store.ts'
import { saying, talkOn } from '../support/talk.ts'
import { typing } from '../support/terminal.ts'

const KEY = 'provider/account'

test('while a downstream pauses, its tasks stay ready in the queue, and other tasks go on', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const refused = Object.assign(new Error('429'), { status: 429, headers: { 'retry-after': '3600' } })
  const limited = task('limited', () => Promise.reject(refused), { downstream: KEY })
  const other = task('other', () => 'done')
  const { pod } = await podOn(t, url, {}, { tasks: [limited, other] })
  const first = await pod.enqueue({ machine: limited })
  const found = await eventually(
    async () => {
      const one = (await pod.findTask(first.id))!
      assert.equal(one.state, 'waiting')
      return one
    },
    { what: 'the refusal' },
  )
  const { code, message } = found.error as { readonly code: string; readonly message: string }
  assert.equal(found.spent, 0)
  assert.equal(code, 'rate_limited')
  assert.equal(message, 'provider/account: refused: 429')
  assert.ok(Date.parse(found.runAt!) > Date.now() + 3_000_000, `too early for the provider: ${found.runAt}`)
  await pod.enqueueAll(Array.from({ length: 5 }, () => ({ machine: limited })))
  for (let n = 0; n < 3; n += 1) {
    const { id } = await pod.enqueue({ machine: other })
    await eventually(async () => assert.equal((await pod.findTask(id))?.state, 'done'), {
      what: 'other work',
    })
  }
  const states = await run((query) =>
    query(`select state::text, attempt, count(*)::int from fleetline.tasks group by 1, 2 order by 1`),
  )
  assert.deepEqual(states, [
    { state: 'ready', attempt: 0, count: 5 },
    { state: 'waiting', attempt: 1, count: 1 },
  ])
})

test('two pods finish a queue behind a hidden limit, and a rejected call spends no attempt', async (t) => {
  const url = await databaseFor(t)
  const provider = await providerOf(t, { limit: 5, ms: 30 })
  const ask = task(
    'ask',
    async ({ call }) => {
      const response = await fetch(provider.url, { signal: call.signal })
      call.response(response.status, response.headers)
      if (!response.ok) throw new Error('not taken on')
      call.firstToken()
      return response.text()
    },
    { downstream: KEY, attempts: 1 },
  )
  const [{ pod, admin: operatorUrl }] = await Promise.all([
    podOn(t, url, { podName: 'one' }, { tasks: [ask] }),
    podOn(t, url, { podName: 'two' }, { tasks: [ask] }),
  ])
  await pod.enqueueAll(Array.from({ length: 100 }, () => ({ machine: ask })))
  await eventually(() => assert.equal(provider.books.taken, 100), {
    what: 'all to be done',
    details: () => JSON.stringify(provider.books),
  })
  await eventually(
    async () => assert.equal((await pod.listTasks({ state: 'done', limit: 100 })).tasks.length, 100),
    { what: 'all to be settled' },
  )
  assert.equal(pod.downstream(KEY).standing().held, 0)

  type Listed = z.infer<typeof downstreamsSchema>['downstreams'][number]
  const listed = async () => {
    const { downstreams } = (await call('GET', `${operatorUrl}/v1/downstreams`)).body
    assert.deepEqual(
      (downstreams as Listed[]).map(({ key }) => key),
      [KEY],
    )
    const [one] = downstreams as [Listed]
    assert.ok(one.capacity !== null && one.ageMs !== null && one.pods.length > 0, JSON.stringify(one))
    return one
  }
  const { capacity, pods } = await eventually(
    async () => {
      await pod.enqueue({ machine: ask }) // one more each time, until the limit is reached
      return listed()
    },
    { what: 'its capacity' },
  )
  assert.ok(capacity! >= 1, `a capacity of ${capacity}`)
  assert.ok(pods.reduce((sum, { share }) => sum + (share ?? 0), 0) <= capacity!, JSON.stringify(pods))
  const shown = await typing(DOWNSTREAMS, 'downstreams')({ url: operatorUrl, json: true }, 'ls')
  const line = JSON.parse(shown.out) as { readonly [column: string]: unknown }
  assert.equal(line['key'], KEY)
  assert.match(String(line['shares']), /^(one|two):(\d+|-)/)
})

test('if the provider of an agent in code rejects a call, the turn waits, says why, and spends no attempt', async (t) => {
  const url = await databaseFor(t)
  let calls = 0
  const answer = () => {
    calls += 1
    if (calls <= 2) throw Object.assign(new Error('slow down'), { status: 429 })
    return saying('at last')
  }
  const { pod, gateway, admin } = await podOn(
    t,
    url,
    {},
    { agents: [agent('bot', answer, { downstream: KEY })] },
  )
  const talk = await talkOn(t, { url, gateway, agent: 'bot' })
  const { turn } = await talk.send('hi')
  const waits = await eventually(
    async () => {
      const found = await talk.turn(turn!)
      assert.equal(found.waitsFor, 'rate_limited')
      return found
    },
    { what: 'the wait' },
  )
  assert.notEqual(waits.retryAt, null)
  assert.equal(waits.state, 'queued')
  await talk.run(`update fleetline.tasks set spent = 3`) // one more counted attempt would be the last
  const done = await talk.ended(turn!)
  assert.equal(done.state, 'done')
  assert.equal(done.waitsFor, null)
  assert.equal(calls, 3)
  assert.equal(pod.downstream(KEY).standing().held, 0)
  const used = async () => {
    const { body } = await call('GET', `${admin}/v1/downstreams`)
    assert.deepEqual(
      (body['downstreams'] as { key: string }[]).map(({ key }) => key),
      [KEY],
    )
  }
  await eventually(used, { what: 'its key to be in use' })
})
