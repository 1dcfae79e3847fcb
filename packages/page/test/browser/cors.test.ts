// S36 S9: a page of another origin follows a session with tokens that live for six seconds, while another program writes. Tokens
// expire, and one is revoked. In the end the page shows every message once, in order. It does so over a socket, and over event streams,
// whose requests carry no cookies. A page whose origin is not listed gets nothing.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Page, Request } from 'playwright-core'
import { databaseFor } from '../../../server/test/support/database.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { call } from '../../../server/test/support/http.ts'
import { CLOSED, podOn } from '../../../server/test/support/pod.ts'
import { openChromium } from '../support/chromium.ts'
import { serveProgram } from '../support/program-host.ts'

const TOKEN_SECONDS = 6
const WRITE_MS = 100
const COOKIE = 'login=secret'
const CLIENT = join(import.meta.dirname, '../../../client/src/index.ts')

/** What the page does: it shows the texts of the session, and each state of its connection. */
const PROGRAM = `
import { createClient } from ${JSON.stringify(CLIENT)}

const overStreams = { fetch: (...request) => fetch(...request) }
const client = createClient({
  ...(location.hash === '#streams' && overStreams),
  url: document.body.dataset.gateway,
  token: async () => {
    const answer = await fetch('/token', { method: 'POST' })
    if (!answer.ok) throw new Error('There is no token')
    return answer.text()
  },
})
const session = client.session('talk')
globalThis.states = []
session.subscribe(() => {
  const { messages, connection } = session.get()
  if (states.at(-1) !== connection) states.push(connection)
  const items = messages.map(({ parts: [{ text }] }) => Object.assign(document.createElement('li'), { textContent: text }))
  document.querySelector('ol').replaceChildren(...items)
})
`

type Host = {
  readonly port: number
  /** Where the pods are, and how to get a token. Set it before a page is opened. */
  serve: { readonly gateway: string; readonly mint: () => Promise<string> } | undefined
}

/** The server of the page, with a back end that mints tokens for ada. It logs her in by a cookie. */
async function hostFor(t: TestContext): Promise<Host> {
  const port = await serveProgram(t, PROGRAM, async (request, response) => {
    if (request.url === '/token') return void response.end(await host.serve!.mint())
    response
      .writeHead(200, { 'content-type': 'text/html', 'set-cookie': `${COOKIE}; SameSite=Lax` })
      .end(
        `<body data-gateway="${host.serve!.gateway}"><ol></ol><script type="module" src="/program.js"></script>`,
      )
  })
  const host: Host = { port, serve: undefined }
  return host
}

async function setUp(t: TestContext) {
  const host = await hostFor(t)
  const url = await databaseFor(t)
  const flags = { ...CLOSED, corsOrigins: `http://localhost:${host.port}` }
  const [first, second] = await Promise.all([podOn(t, url, flags), podOn(t, url, flags)])
  const { key } = await first.pod.keys.create({ tenant: 'dev', name: 'backend' })
  const made = await call('POST', `${first.gateway}/v1/sessions`, { alias: 'talk', members: ['ada'] }, key)
  assert.equal(made.status, 201)
  const gateway = first.gateway.replace('127.0.0.1', 'localhost') // cookies do not depend on the port
  const minted: string[] = []
  const mint = async () => {
    const { body } = await call('POST', `${gateway}/v1/tokens`, { user: 'ada', seconds: TOKEN_SECONDS }, key)
    minted.push(String(body['token']))
    return minted.at(-1)!
  }
  host.serve = { gateway, mint }
  return { host, gateway, key, minted, pod: first.pod, writeTo: second.gateway }
}

/** Another program writes numbers until it is told to stop. Resolves to how many there are. */
function writerTo(url: string, key: string) {
  const over = new AbortController()
  const write = async () => {
    let count = 0
    for (; !over.signal.aborted; await pause(WRITE_MS)) {
      const { status } = await call('POST', url, { text: String(count + 1) }, key)
      assert.equal(status, 200)
      count += 1
    }
    return count
  }
  const written = write()
  return () => (over.abort(), written)
}

const statesOf = (page: Page) => page.evaluate(() => (globalThis as unknown as { states: string[] }).states)

function expiryOf(token: string): number {
  const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as { exp: number }
  return claims.exp * 1_000
}

for (const way of ['socket', 'streams'])
  test(`S36 S9: a page of a listed origin misses nothing over ${way === 'socket' ? 'a socket' : 'event streams'} while its tokens expire, and one is revoked`, async (t) => {
    const { host, gateway, key, minted, pod, writeTo } = await setUp(t)
    const page = await (await openChromium(t)).newPage()
    const requests: Request[] = []
    page.on('request', (request) => requests.push(request))
    const hellos: string[] = []
    page.on('websocket', (socket) =>
      socket.on('framesent', ({ payload }) => {
        const { type, token } = JSON.parse(String(payload)) as {
          readonly type: string
          readonly token: string
        }
        if (type === 'hello') hellos.push(token)
      }),
    )
    const usedTokens = async () => {
      if (way === 'socket') return [...new Set(hellos)]
      const streams = requests.filter(
        (request) => request.method() === 'GET' && request.url().includes('/events'),
      )
      const headers = await Promise.all(streams.map((request) => request.allHeaders()))
      return [...new Set(headers.map(({ authorization = '' }) => authorization.replace('Bearer ', '')))]
    }
    const stop = writerTo(`${writeTo}/v1/sessions/talk/messages`, key)
    await page.goto(`http://localhost:${host.port}/#${way}`)

    const haveExpired = async () => {
      const used = await usedTokens()
      assert.ok(used.filter((token) => expiryOf(token) < Date.now()).length >= 2)
    }
    await eventually(haveExpired, { what: 'two tokens to expire', patienceMs: 60_000 })
    assert.deepEqual(
      await statesOf(page),
      ['connecting', 'live'],
      'a renewed token does not interrupt the page',
    )

    const before = minted.length
    await pod.tokens.revoke('ada')
    const isRenewed = async () => {
      const used = await usedTokens()
      assert.ok(minted.slice(before).some((token) => used.includes(token)))
    }
    await eventually(isRenewed, { what: 'a token of after the revocation' })

    const count = await stop()
    const shown = () => page.locator('li').allTextContents()
    const expected = Array.from({ length: count }, (_, index) => String(index + 1))
    await eventually(async () => assert.equal((await shown()).length, count), { what: 'all messages' })
    assert.deepEqual(await shown(), expected, 'every message once, in order')

    const [own, others] = [requests, requests].map((all, index) =>
      all.filter((request) => request.url().startsWith(gateway) === (index === 1)),
    ) as [Request[], Request[]]
    const cookies = async (some: Request[]) =>
      Promise.all(some.map(async (request) => (await request.allHeaders())['cookie']))
    assert.ok((await cookies(own)).includes(COOKIE), 'the page has a cookie')
    assert.equal(others.length >= 4, way === 'streams')
    for (const cookie of await cookies(others)) assert.equal(cookie, undefined)
    for (const request of others) {
      const headers = await (await request.response())?.allHeaders()
      assert.equal(headers?.['access-control-allow-credentials'], undefined)
    }
    t.diagnostic(`figure cors_${way}_messages ${count}`)
    t.diagnostic(`figure cors_${way}_tokens ${minted.length}`)
  })

test('S36: a page of an origin that is not listed gets nothing', async (t) => {
  const { host, gateway, key } = await setUp(t)
  await makeMessage(gateway, key)
  const page = await (await openChromium(t)).newPage()
  await page.goto(`http://127.0.0.1:${host.port}/`) // to a browser, another origin than localhost
  const token = await host.serve!.mint()
  const read = (url: string, headers: Record<string, string>) =>
    page.evaluate(
      ([url, headers]) =>
        fetch(url, { headers }).then(
          () => 'read',
          (error: Error) => error.name,
        ),
      [url, headers] as const,
    )
  assert.equal(await read(`${gateway}/v1/openapi.json`, {}), 'TypeError', 'without a preflight')
  assert.equal(await read(`${gateway}/v1/sessions/talk`, { authorization: `Bearer ${token}` }), 'TypeError')
  const isTried = async () => assert.ok((await statesOf(page)).includes('offline'))
  await eventually(isTried, { what: 'the client to give up for now' })
  assert.deepEqual(await page.locator('li').allTextContents(), [])
})

async function makeMessage(gateway: string, key: string): Promise<void> {
  const { status } = await call('POST', `${gateway}/v1/sessions/talk/messages`, { text: 'hidden' }, key)
  assert.equal(status, 200)
}
