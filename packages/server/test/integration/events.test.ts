// Reading and following over HTTP, on one pod in this process.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { test, type TestContext } from 'node:test'
import type { Page } from '@fleetline/protocol'
import { createParser } from 'eventsource-parser'
import pg from 'pg'
import { refusalSchema } from '../../src/door/refusal.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { fill } from '../support/fill.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { readEvents, untilSeq } from '../support/reader.ts'

async function open(t: TestContext, flags: Readonly<Record<string, string>> = {}) {
  const url = await databaseFor(t)
  const running = await podOn(t, url, flags)
  const { session } = await makeSession(running.gateway)
  const at = `${running.gateway}/v1/sessions/${session}`
  const say = async (text: string) => (await call('POST', `${at}/messages`, { text })).body['seq'] as number
  return { ...running, url, session, at, say }
}

async function metricOf(admin: string, name: string): Promise<string | undefined> {
  const lines = (await (await fetch(`${admin}/metrics`)).text()).split('\n')
  return lines.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1)
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

test('a page shows messages as they were written; an invalid query is rejected with the name of its field', async (t) => {
  const { gateway, session, at, say } = await open(t)
  const message = {
    id: 'm-1',
    role: 'assistant',
    parts: [{ type: 'text', text: 'hi' }],
    metadata: { model: 'x' },
  }
  await call('POST', `${at}/messages`, { message, author: 'bot' })
  await say('second')
  const page = (await call('GET', `${at}/messages?limit=1&after=0`)).body as Page
  const { at: time, ...item } = page.items[0]!
  assert.deepEqual(item, { seq: 1, ...message, author: { kind: 'agent', id: 'bot' } })
  assert.equal(page.head, 2)
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 600_000, time)
  const seqs = async (query: string) =>
    ((await call('GET', `${at}/messages${query}`)).body as Page).items.map(({ seq }) => seq)
  assert.deepEqual(await seqs(''), [1, 2])
  assert.deepEqual(await seqs('?before=2'), [1])
  assert.deepEqual(await seqs('?after=2'), [])
  for (const [path, text] of [
    ['messages?after=1&before=2', /takes after or before/],
    ['messages?limit=101', /limit: must be from 1 to 100/],
    ['messages?after=2147483648', /after: must be from 0 to 2147483647/],
    ['events?after=-1', /after: must be a whole number/],
  ] as const) {
    const { status, body } = await call('GET', `${gateway}/v1/sessions/${session}/${path}`)
    assert.equal(status, 400, `${path}: ${status}`)
    assert.match(refusalSchema.parse(body).error.text, text)
  }
})

test('D1: a follower goes from stored to live messages without a gap; with Last-Event-ID it resumes without one', async (t) => {
  const { pod, at, say } = await open(t)
  for (const n of numbers(1, 3)) await say(`stored ${n}`)
  const first = await readEvents(t, `${at}/events?after=1`)
  await untilSeq(first, 3)
  assert.deepEqual(first.events.at(-1), { event: 'messages', id: '3.0', data: first.events.at(-1)!.data })
  await say('live')
  await untilSeq(first, 4)
  assert.deepEqual(
    first.items.map(({ seq }) => seq),
    [2, 3, 4],
  )
  first.cut()
  await say('while away')
  const second = await readEvents(t, `${at}/events?after=1`, { 'last-event-id': first.lastId()! })
  await untilSeq(second, 5)
  assert.deepEqual(
    second.items.map(({ seq }) => seq),
    [5],
  )
  await pod.stop() // ends the stream, and does not wait for its reader
  assert.equal(await second.ended, true)
})

test('D3: a follower that asks for a seq beyond the head is told to start again; a full pod answers 503', async (t) => {
  const { session, at, say } = await open(t, { maxFollowers: '1' })
  await say('only')
  const reader = await readEvents(t, `${at}/events?after=11`)
  await untilSeq(reader, 1)
  assert.deepEqual(reader.frames[0], { type: 'gap', session, reason: 'diverged', from: 12, to: 0 })
  assert.equal(reader.events[0]!.id, '0', 'if it is cut here, it resumes at the beginning')
  const full = await call('GET', `${at}/events`)
  assert.equal(full.status, 503)
  assert.equal(refusalSchema.parse(full.body).error.code, 'unavailable')
})

test('a follower counts from its request on, and no longer if it leaves before its stream begins', async (t) => {
  const { admin, url, at, say } = await open(t, { maxFollowers: '1' })
  await say('first')
  const metric = (name: string) => metricOf(admin, name)
  const streams =
    'fleetline_http_requests_total{door="gateway",route="/v1/sessions/:session/events",status="200"}'
  const locked = new pg.Client(url)
  await locked.connect()
  atEnd(t, () => locked.end())
  await locked.query('begin; lock table fleetline.messages') // the follower's first read waits here
  const leaving = get(`${at}/events`)
  leaving.on('error', () => undefined)
  await eventually(async () => assert.equal(await metric('fleetline_followers'), '1'), {
    what: 'the follower to count',
  })
  assert.equal((await call('GET', `${at}/events`)).status, 503, 'the pod takes one follower')
  leaving.destroy()
  await locked.query('rollback')
  await eventually(async () => assert.equal(await metric('fleetline_followers'), '0'), {
    what: 'the follower to be gone',
  })

  const reader = await readEvents(t, `${at}/events`)
  await untilSeq(reader, 1)
  reader.cut()
  await eventually(
    async () => {
      const count = Number(await metric(streams))
      assert.ok(count >= 1, `${count} streams`)
    },
    { what: 'the stream that was cut to be counted' },
  )
})

test('D3: a follower that reads nothing is disconnected, and resumes after the last id that it has', async (t) => {
  const { admin, url, session, at } = await open(t, { stallMs: '300' })
  await fill(url, { count: 120, length: 250_000 })
  const [stalled] = (await once(get(`${at}/events`), 'response')) as [IncomingMessage] // nobody reads it
  atEnd(t, () => stalled.destroy())
  const followers = () => metricOf(admin, 'fleetline_followers')
  await eventually(async () => assert.equal(await followers(), '0'), {
    what: 'the stalled follower to be closed',
  })

  let lastId = '0'
  const parser = createParser({ onEvent: ({ id = '' }) => (lastId = id) })
  const drain = async () => {
    for await (const text of stalled.setEncoding('utf8')) parser.feed(text as string)
  }
  await assert.rejects(drain(), { code: 'ECONNRESET' }, 'the stream was cut, not ended')
  assert.ok(Number(lastId) < 120, `last id ${lastId}`)
  const other = await podOn(t, url, { stallMs: '600000' })
  const resumed = await readEvents(t, `${other.gateway}/v1/sessions/${session}/events`, {
    'last-event-id': lastId,
  })
  await untilSeq(resumed, 120)
  assert.deepEqual(
    resumed.items.map(({ seq }) => seq),
    numbers(Number(lastId) + 1, 120),
  )
})

/** Reads a little now and then, so that it never stalls. To read everything would take minutes. */
async function trickle(t: TestContext, url: string): Promise<void> {
  const [answer] = (await once(get(url), 'response')) as [IncomingMessage]
  atEnd(t, () => answer.destroy())
  const pieces = answer[Symbol.asyncIterator]()
  const pause = () => new Promise((resolve) => setTimeout(resolve, 300))
  while (!(await pieces.next()).done) await pause()
}

test('followers hold no more bytes than the setting allows: a quick reader is served, slow ones are cut', async (t) => {
  const most = 4 * 1024 * 1024 // four events
  const { admin, url, at } = await open(t, { stallMs: '1000', followBytes: `${most}` })
  await fill(url, { count: 30, length: 250_000 })
  const heldBytes = async () => Number(await metricOf(admin, 'fleetline_follow_bytes'))
  for (let n = 0; n < 6; n += 1) void trickle(t, `${at}/events`).catch(() => undefined)
  await eventually(
    async () => {
      const held = await heldBytes()
      assert.ok(held > most / 2, `${held} bytes`)
    },
    { what: 'the slow readers to hold bytes' },
  )
  const quick = await readEvents(t, `${at}/events`)
  let peak = 0
  await eventually(
    async () => {
      peak = Math.max(peak, await heldBytes())
      assert.equal(quick.items.at(-1)?.seq, 30)
    },
    { what: 'the quick reader to be at the head', patienceMs: 120_000 },
  )
  assert.ok(peak <= most, `${peak} bytes`)
  const cut = Number(await metricOf(admin, 'fleetline_followers_cut_total'))
  assert.ok(cut > 0, `${cut} followers were cut`)
})
