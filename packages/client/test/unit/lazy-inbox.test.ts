// An inbox before its code is loaded.
import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { test } from 'node:test'
import { manualClock } from '../../../server/test/support/clock.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { turns } from '../../../server/test/support/inbox-parts.ts'
import type { Http } from '../../src/http.ts'
import { createLazyInbox } from '../../src/lazy-inbox.ts'
import { createLink } from '../../src/link.ts'
import { createTokens } from '../../src/tokens.ts'

const never = () => new Promise<never>(() => undefined)

function setUp() {
  const [clock, random, requests]: [ReturnType<typeof manualClock>, () => number, string[]] = [
    manualClock(),
    () => 0.5,
    [],
  ]
  const http: Pick<Http, 'get' | 'send' | 'open'> = {
    get: never,
    send: async <T>(_method: string, path: string) => {
      requests.push(path)
      return { read: 3, unread: 0 } as T
    },
    open: (path) => {
      requests.push(path)
      return never()
    },
  }
  const tokens = createTokens({ source: undefined, clock, random })
  const link = createLink({ WebSocket: undefined, url: () => '', tokens, clock, random })
  let closes = 0
  const inbox = createLazyInbox({ http, link, clock, random, onClose: () => void (closes += 1) })
  return { inbox, clock, requests, closes: () => closes }
}

test('calls wait for the code, which is loaded again if that fails, and at once after a wake-up', async () => {
  let [loads, isDown] = [0, true]
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier.endsWith('/inbox.ts') && (loads += 1) && isDown) throw new Error('The network is down')
      return next(specifier, context)
    },
  })
  const { inbox, clock, requests } = setUp()
  try {
    const empty = inbox.get()
    assert.deepEqual([empty.loading, empty.connection, empty.sessions], [true, 'connecting', []])
    const calls = [inbox.markRead('ses_1', 3), inbox.change('ses_1', { title: 'Rome' }), inbox.loadMore()]
    const retry = async () => {
      await clock.advance(25)
      assert.ok(loads >= 2)
    }
    await eventually(retry, { what: 'the second attempt' })
    assert.deepEqual([inbox.get() === empty, requests], [true, []])
    isDown = false
    const before = loads
    const wake = () => {
      inbox.wake()
      assert.ok(loads > before)
    }
    await eventually(wake, { what: 'another attempt, before the pause is over' })
    await Promise.all(calls)
    await eventually(
      () =>
        assert.deepEqual(requests.toSorted(), [
          '/inbox/events?show=all',
          '/sessions/ses_1',
          '/sessions/ses_1/read',
        ]),
      { what: 'the requests' },
    )
  } finally {
    inbox.close()
    hooks.deregister()
  }
  await assert.rejects(inbox.markRead('ses_1', 4), /closed/)
})

test('an inbox that is closed before its code is there opens nothing', async (t) => {
  const { inbox, clock, requests, closes } = setUp()
  const listener = t.mock.fn()
  inbox.subscribe(listener)
  const calls = [inbox.markRead('ses_1', 3), inbox.loadMore()]
  inbox.close()
  assert.deepEqual([inbox.get().connection, inbox.get() === inbox.get()], ['offline', true])
  assert.deepEqual([listener.mock.callCount(), closes()], [1, 1])
  for (const call of [...calls, inbox.markRead('ses_1', 3), inbox.loadMore()])
    await assert.rejects(call, /closed/)
  await turns(100)
  assert.deepEqual([requests, clock.sleepers, inbox.get().connection], [[], 0, 'offline'])
})
