// Pages and reads of an inbox while its stream begins again, requests fail, and the page closes it. The test answers each request.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Id, InboxFrame, InboxItem } from '@fleetline/protocol'
import { manualClock } from '../../../server/test/support/clock.ts'
import { turns } from '../../../server/test/support/inbox-parts.ts'
import { unavailable } from '../../src/failure.ts'
import type { Http } from '../../src/http.ts'
import { createLink } from '../../src/link.ts'
import { createTokens } from '../../src/tokens.ts'
import { createInbox } from '../../src/inbox.ts'

type Request = {
  readonly path: string
  readonly signal: AbortSignal
  readonly answer: (body: unknown) => void
  readonly fail: () => void
}
type Opened = { readonly send: (frame: InboxFrame) => void; readonly renew: () => void }

const idOf = (n: number) => `ses_${n}` as Id<'session'>

function item(n: number, more: Partial<InboxItem> = {}): InboxItem {
  const named = { session: idOf(n), alias: null, title: null, agent: null, archived: false }
  const counts = { head: 1, read: 0, unread: 1, preview: null, attention: null, turn: null, rev: 1 }
  return { ...named, ...counts, updatedAt: new Date(1e12 - n).toISOString(), ...more }
}

/** Four pages of two sessions each. `newer`: so many sessions have come before the first one. */
const pageOf = (n: number, newer = 0) => ({
  items: [item(2 * n - 1 - newer), item(2 * n - newer)],
  next: n < 4 ? `${n + 1}` : null,
  unreadTotal: 8,
  attentionTotal: 0,
})

function setUp() {
  const [requests, streams, clock]: [Request[], Opened[], ReturnType<typeof manualClock>] = [
    [],
    [],
    manualClock(),
  ]
  const ask = <T>(path: string, signal: AbortSignal) =>
    new Promise<T>((resolve, reject) => {
      const answer = (body: unknown) => resolve(body as T)
      requests.push({ path, signal, answer, fail: () => reject(unavailable('There is no answer.')) })
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  const http: Pick<Http, 'get' | 'send' | 'open'> = {
    get: ask,
    send: (_, path, __, signal) => ask(path, signal),
    open: async (_path, _headers, signal) => {
      const renewal = Promise.withResolvers<void>()
      let revision = 0
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          const send = (frame: InboxFrame) =>
            controller.enqueue(
              new TextEncoder().encode(`id: ${(revision += 1)}\ndata: ${JSON.stringify(frame)}\n\n`),
            )
          signal.addEventListener('abort', () => controller.error(signal.reason))
          streams.push({ send, renew: renewal.resolve })
        },
      })
      const headers = { 'content-type': 'text/event-stream' }
      return { answer: new Response(body, { headers }), renewed: () => renewal.promise }
    },
  }
  const tokens = createTokens({ source: undefined, clock, random: () => 0.5 })
  const link = createLink({ WebSocket: undefined, url: () => '', tokens, clock, random: () => 0.5 })
  const inbox = createInbox({ http, link, clock, random: () => 0.5, onClose: () => undefined })
  const settle = () => turns(10)
  let begun = 0
  return {
    inbox,
    requests,
    clock,
    settle,
    shown: () => inbox.get().sessions.map(({ session }) => Number(session.slice(4))),
    /** The newest stream begins with the first page. */
    begin: async (newer = 0) => {
      await settle()
      assert.equal(streams.length, (begun += 1))
      streams.at(-1)!.send({ type: 'inbox', revision: 1, reset: true, removed: [], ...pageOf(1, newer) })
      await settle()
    },
    send: async (frame: Partial<InboxFrame>) => {
      const none = { reset: false, items: [], removed: [], unreadTotal: 8, attentionTotal: 0 }
      streams.at(-1)!.send({ type: 'inbox', revision: 2, ...none, ...frame })
      await settle()
    },
    renew: () => streams.at(-1)!.renew(),
    /** Answers the page that was requested last. */
    load: async (newer = 0) => {
      await settle()
      const { path, answer } = requests.at(-1)!
      answer(pageOf(Number(path.slice(-1)), newer))
      await settle()
    },
  }
}

async function threePages() {
  const parts = setUp()
  await parts.begin()
  for (let pages = 1; pages < 3; pages += 1) {
    const more = parts.inbox.loadMore()
    await parts.load()
    await more
  }
  assert.deepEqual(parts.shown(), [1, 2, 3, 4, 5, 6])
  return parts
}

test('the pages that were loaded are loaded again, also after one of them failed and the stream began again', async () => {
  const { inbox, requests, clock, renew, begin, load, settle, shown } = await threePages()
  renew()
  await begin()
  requests.at(-1)!.fail()
  await settle()
  renew()
  await begin()
  requests.at(-1)!.fail()
  await settle()
  await clock.advance(250)
  await load()
  await load()
  assert.deepEqual([shown(), inbox.get().hasMore], [[1, 2, 3, 4, 5, 6], true])
  await clock.advance(30_000)
  assert.deepEqual(
    requests.map(({ path }) => path.slice(-1)),
    ['2', '3', '2', '2', '2', '3'],
  )
  inbox.close()
})

test('until the pages are loaded again, what they showed stays, as far as it is not known to be over', async () => {
  const { inbox, renew, begin, load, send, shown } = await threePages()
  renew()
  await begin()
  assert.deepEqual(shown(), [1, 2, 3, 4, 5, 6])
  await send({ removed: [{ session: idOf(4), rev: 9 }], items: [item(6, { rev: 2, title: 'new' })] })
  assert.deepEqual(shown(), [1, 2, 3, 5, 6])
  assert.equal(inbox.get().sessions.at(-1)!.title, 'new')
  await load()
  await load()
  assert.deepEqual(shown(), [1, 2, 3, 5, 6])
  renew()
  await begin(1)
  assert.deepEqual(shown(), [0, 1, 2, 3, 5, 6])
  await load(1)
  await load(1)
  assert.deepEqual(shown(), [0, 1, 2, 3, 4, 5], 'six sessions, as before')
  inbox.close()
})

test('loadMore across a reset loads the pages that were there and the next one', async () => {
  const { inbox, requests, renew, begin, load, settle, shown } = await threePages()
  let isLoaded = false
  const more = inbox.loadMore().then(() => (isLoaded = true))
  await settle()
  const stale = requests.at(-1)!
  renew()
  await begin()
  stale.answer(pageOf(4))
  await settle()
  assert.equal(isLoaded, false)
  for (let pages = 1; pages < 4; pages += 1) await load()
  await more
  assert.deepEqual([shown(), inbox.get().hasMore], [[1, 2, 3, 4, 5, 6, 7, 8], false])
  inbox.close()
})

test('a read that is under way when the inbox is closed is stored; if it fails, only a caller that waits is told', async () => {
  for (const isStored of [true, false]) {
    const { inbox, requests, begin, settle, shown } = setUp()
    await begin()
    const stored = inbox.markRead('ses_1')
    void inbox.markRead('ses_2')
    inbox.close()
    await settle()
    assert.deepEqual(
      requests.map(({ path, signal }) => [path, signal.aborted]),
      [
        ['/sessions/ses_1/read', false],
        ['/sessions/ses_2/read', false],
      ],
    )
    for (const { answer, fail } of requests)
      if (isStored) answer({ read: 1, unread: 0 })
      else fail()
    await settle()
    if (isStored) await stored
    else await assert.rejects(stored, { code: 'unavailable' })
    assert.deepEqual(
      inbox.get().sessions.map(({ unread }) => unread),
      isStored ? [0, 0] : [1, 1],
    )
    assert.equal(requests.length, shown().length, 'nothing is sent again')
  }
})

test('a read that failed is not sent again after the inbox is closed', async () => {
  const { inbox, requests, begin, clock, settle } = setUp()
  await begin()
  const stored = inbox.markRead('ses_1')
  requests[0]!.fail()
  await settle()
  inbox.close()
  await assert.rejects(stored, /closed/)
  await clock.advance(30_000)
  assert.equal(requests.length, 1)
})
