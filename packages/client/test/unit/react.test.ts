// The hooks on a server, and where they cannot be used. In a page: packages/page/test/browser/react.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createElement, StrictMode, type FunctionComponent } from 'react'
import { renderToString } from 'react-dom/server'
import { createClient } from '../../src/client.ts'
import { FleetlineProvider, useClient, useConnection, useInbox, useSession } from '../../src/react.ts'

const Page: FunctionComponent = () => {
  const { messages, head, hasOlder, loading, status, turn, refusal, ...session } = useSession('talk')
  const { sessions, hasMore, ...inbox } = useInbox({ show: 'unread' })
  const shown = { messages, head, hasOlder, loading, status, turn, refusal }
  const connections = [useConnection(), session.connection, inbox.connection]
  return createElement('pre', null, JSON.stringify({ ...shown, sessions, hasMore, connections }))
}

test('on a server the hooks show nothing, and open nothing', async (t) => {
  const [opened, timers] = [t.mock.fn(), t.mock.method(globalThis, 'setTimeout')]
  const client = createClient({
    url: 'http://localhost:1',
    fetch: opened as unknown as typeof fetch,
    WebSocket: opened as unknown as typeof WebSocket,
    token: opened as unknown as () => Promise<string>,
  })
  const tree = createElement(
    StrictMode,
    null,
    createElement(FleetlineProvider, { client }, createElement(Page)),
  )
  const html = renderToString(tree)
  const text = html.replace(/<[^>]+>/g, '').replaceAll('&quot;', '"')
  assert.deepEqual(JSON.parse(text), {
    messages: [],
    head: 0,
    hasOlder: false,
    loading: true,
    status: 'idle',
    turn: null,
    refusal: null,
    sessions: [],
    hasMore: false,
    connections: ['connecting', 'connecting', 'connecting'],
  })
  await new Promise(setImmediate)
  assert.equal(opened.mock.callCount(), 0)
  assert.equal(timers.mock.callCount(), 0)
  client.close()
})

test('a hook without a provider says what is missing', () => {
  const Lost: FunctionComponent = () => {
    useClient()
    return null
  }
  assert.throws(() => renderToString(createElement(Lost)), /put a FleetlineProvider around this component/)
})
