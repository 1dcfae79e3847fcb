// The read path on PostgreSQL: pages, followers, and the mutant that must turn the check of readers red.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { loadConfig } from '../../src/config.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import type { Nameless } from '../../src/session/follow.ts'
import type { SessionKey } from '../../src/session/items.ts'
import { createReplay } from '../../src/session/replay.ts'
import { createSessions, type Sessions } from '../../src/session/sessions.ts'
import type { Database, Query } from '../../src/store/database.ts'
import { createHints, type Hints } from '../../src/store/hints.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { brokenByReading, textDraft } from '../support/history.ts'
import { appenderOn, logOf, sessionFor } from '../support/sessions.ts'
import { silentLog } from '../support/log.ts'
import { openDatabase } from '../support/store.ts'

async function open(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  return { url, database, key: await sessionFor(database) }
}

async function say(
  database: Database,
  key: SessionKey,
  ids: readonly string[],
  text?: string,
): Promise<void> {
  const { append } = appenderOn(database)
  await Promise.all(ids.map((id) => append({ ...key, draft: textDraft(id, text) })))
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

test('a page from any seq, in both directions, ends at its item or byte limit, but has at least one message', async (t) => {
  const { database, key } = await open(t)
  const { read } = createReplay({ database, cell: 0 })
  await say(
    database,
    key,
    numbers(1, 30).map((n) => `m${n}`),
    'x'.repeat(1_000),
  )
  const seqsOf = async (range: Parameters<typeof read>[1]) =>
    (await read(key, range))?.items.map(({ seq }) => seq)
  assert.deepEqual(await seqsOf({ after: 0, limit: 10 }), numbers(1, 10))
  assert.deepEqual(await seqsOf({ after: 25, limit: 10 }), numbers(26, 30))
  assert.deepEqual(await seqsOf({ after: 30, limit: 10 }), [])
  assert.deepEqual(await seqsOf({ before: 31, limit: 10 }), numbers(21, 30))
  assert.deepEqual(await seqsOf({ before: 4, limit: 10 }), numbers(1, 3))
  assert.deepEqual(await seqsOf({ before: 1, limit: 10 }), [])
  const body = Buffer.byteLength(JSON.stringify({ parts: [{ text: 'x'.repeat(1_000), type: 'text' }] }))
  const three = { limit: 10, maxBytes: 3 * body } // PostgreSQL adds a few spaces, so three messages exceed it
  assert.deepEqual(await seqsOf({ after: 10, ...three }), numbers(11, 13))
  assert.deepEqual(await seqsOf({ before: 10, ...three }), numbers(7, 9))
  assert.deepEqual(await seqsOf({ after: 0, limit: 10, maxBytes: 1 }), [1])
  assert.equal((await read(key, { after: 12, limit: 1 }))?.head, 30)
  assert.equal(
    await read({ ...key, tenant: key.tenant + 1 }, { after: 0, limit: 1 }),
    undefined,
    'another tenant does not see it',
  )
})

/** The sessions of one pod, with their own database connections and hints. */
async function sessionsOn(t: TestContext, url: string, change: (hints: Hints) => Hints = (hints) => hints) {
  const [clock, random, metrics] = [systemClock(), systemRandom(), createMetrics()]
  const hints = createHints({
    databaseUrl: url,
    clock,
    random,
    metrics,
    log: silentLog(),
    pollMs: 50,
    probeMs: 30_000,
  })
  atEnd(t, () => hints.stop())
  await hints.start()
  const config = loadConfig({ environment: {}, flags: { transactionDeadlineMs: '120000' } })
  const database = await openDatabase(t, url)
  const parts = { database, hints: change(hints), metrics, clock, random, log: silentLog() }
  const ignored = () => undefined
  const unheard = { onTurns: ignored, onMoved: ignored, onRead: ignored, onMembershipChanged: ignored }
  return createSessions({ ...config, ...parts, ...unheard })
}

/** Follows until the test ends. */
async function followed(t: TestContext, sessions: Sessions, key: SessionKey, after = 0) {
  const leaving = new AbortController()
  const told: Nameless[] = []
  const following = await sessions.follow(key, { seq: after })
  const over = (async () => {
    for await (const { frame } of following!({ signal: leaving.signal, cut: () => leaving.abort() }))
      told.push(frame)
  })()
  atEnd(t, async () => {
    leaving.abort()
    await over
  })
  return Object.assign(() => told.flatMap((frame) => (frame.type === 'messages' ? frame.items : [])), {
    told,
  })
}

test('D1 D2 S4: followers on another pod reach the head by polling, even if every hint is lost', async (t) => {
  const { url, database, key } = await open(t)
  const deaf = (hints: Hints): Hints => ({
    ...hints,
    listen: (topic, listener) => hints.listen(topic, (source) => source === 'poll' && listener(source)),
  })
  const [writing, reading] = [await sessionsOn(t, url), await sessionsOn(t, url, deaf)]
  const other = await sessionFor(database, 'other')
  const write = async (from: number, to: number) => {
    for (const n of numbers(from, to)) await writing.append({ ...key, draft: textDraft(`m${n}`) })
  }
  await write(1, 7)
  const items = [
    await followed(t, reading, key),
    await followed(t, reading, key), // each wake-up must reach both
    await followed(t, reading, key, 7),
    await followed(t, reading, other),
  ]
  await write(8, 20)
  await eventually(
    () =>
      assert.deepEqual(
        items.map((read) => read().length),
        [20, 20, 13, 0],
      ), // S4: nothing for a follower of another tenant
    { what: 'all followers to be at the head' },
  )
  const log = await logOf(database, key)
  for (const [index, after] of [0, 0, 7].entries())
    assert.deepEqual(brokenByReading({ after, items: items[index]!() }, log), [])
})

test('D3: if the log was cut, a follower that stayed and one that comes back start again and go on with it', async (t) => {
  const { url, database, key } = await open(t)
  const sessions = await sessionsOn(t, url)
  const write = (n: number) => sessions.append({ ...key, draft: textDraft(`m${n}`) })
  for (const n of numbers(1, 10)) await write(n)
  const stayed = await followed(t, sessions, key)
  await eventually(() => assert.equal(stayed().length, 10), { what: 'the first to be at the head' })
  await database.transaction(async (query) => {
    await query('delete from fleetline.messages where seq > 5')
    await query('update fleetline.sessions set head = 5')
  })
  const back = await followed(t, sessions, key, 10)
  const seen = (reader: typeof back) =>
    reader.told.map((frame) =>
      frame.type === 'messages' ? frame.items.map(({ seq }) => seq).join() : frame.type,
    )
  const both = () => ({ stayed: seen(stayed).slice(seen(stayed).indexOf('gap')), back: seen(back) })
  const again = ['gap', '1,2,3,4,5']
  await eventually(() => assert.deepEqual(both(), { stayed: again, back: again }), {
    what: 'both to start again',
  })
  await write(11)
  const more = [...again, '6']
  await eventually(() => assert.deepEqual(both(), { stayed: more, back: more }), { what: 'both to go on' })
})

test('mutant, deliver before commit: L9 turns red; the real read path shows nothing of a write that fails', async (t) => {
  const { database, key } = await open(t)
  const readings: Record<string, { seq: number; id: string }[]> = {}
  /** Reads just before a commit that never comes. */
  const look = async (open: Query) => {
    const inside: Pick<Database, 'transaction'> = {
      transaction: async (work) => ({ type: 'committed', value: await work(open) }),
    }
    for (const [name, source] of Object.entries({ mutant: inside, ours: database }))
      readings[name] = [
        ...(await createReplay({ database: source, cell: 0 }).read(key, { after: 0, limit: 10 }))!.items,
      ]
  }
  const dying: Pick<Database, 'transaction'> = {
    transaction: (work, options) =>
      database.transaction(async (query) => {
        await work(query)
        await look(query)
        throw new Error('the pod dies here')
      }, options),
  }
  await assert.rejects(appenderOn(dying).append({ ...key, draft: textDraft('a') }))
  const log = await logOf(database, key)
  const broken = (items: Record<string, { seq: number; id: string }[]>[string]) =>
    brokenByReading({ after: 0, items }, log)
  assert.deepEqual(broken(readings['mutant']!), ['L9: seq 1 was told and is not in the log'])
  assert.deepEqual(readings['ours'], [])
  assert.equal(log.head, 0)
})
