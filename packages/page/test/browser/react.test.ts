// The hooks of @fleetline/client/react in a page, against a pod whose agent says what the test tells it.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { build, type BuildOptions } from 'esbuild'
import type { Page } from 'playwright-core'
import { agent } from '../../../server/src/agent/agent.ts'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { portInFront } from '../../../server/test/support/front.ts'
import { blocksIn } from '../../../server/test/support/guide.ts'
import { call, makeSession } from '../../../server/test/support/http.ts'
import { podOn } from '../../../server/test/support/pod.ts'
import { openChromium } from '../support/chromium.ts'
import type { Stage } from '../support/react-page.tsx'

const LINGER_MS = 30_000
const LINK_MS = 30_000 // the socket stays open that long without a session

type InPage = { readonly stage: Stage; readonly timers: ReadonlyMap<unknown, string> }

type Source = Pick<BuildOptions, 'entryPoints' | 'stdin'>
const STAGE: Source = { entryPoints: [join(import.meta.dirname, '../support/react-page.tsx')] }

/** The page of the guide, with another URL. */
function guideFor(gateway: string): Source {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/guides/client.md'), 'utf8')
  const { text } = blocksIn(page, 'React').find(({ language }) => language === 'jsx')!
  const contents = text.replace('http://localhost:4400', gateway)
  return { stdin: { contents, loader: 'jsx', resolveDir: import.meta.dirname } }
}

/** Serves the page, and resolves to its port. */
async function hostFor(t: TestContext, source: Source, gateway: string): Promise<number> {
  const { outputFiles } = await build({
    ...source,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    jsx: 'automatic',
    conditions: ['fleetline-source'],
    define: { 'process.env.NODE_ENV': '"development"' }, // strict mode does nothing in production
    write: false,
  })
  const server = createServer((request, response) => {
    if (request.url === '/page.js')
      response.writeHead(200, { 'content-type': 'text/javascript' }).end(outputFiles[0]!.text)
    else
      response
        .writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
        .end(
          `<body data-gateway="${gateway}"><main id="root"></main><script type="module" src="/page.js"></script></body>`,
        )
  })
  server.listen(0)
  await once(server, 'listening')
  atEnd(t, () => server.close().closeAllConnections())
  return (server.address() as AddressInfo).port
}

/** What the agent is to say next. Undefined ends its reply. */
function createSpeech() {
  let said: (string | undefined)[] = []
  let wake = Promise.withResolvers<void>()
  const say = (text: string | undefined) => {
    said.push(text)
    wake.resolve()
  }
  const teller = agent('teller', async function* () {
    yield { type: 'start' }
    yield { type: 'text-start', id: '1' }
    for (;;) {
      for (const delta of said.splice(0)) {
        if (delta !== undefined) yield { type: 'text-delta', id: '1', delta }
        else {
          yield { type: 'text-end', id: '1' }
          return yield { type: 'finish' }
        }
      }
      wake = Promise.withResolvers()
      if (said.length === 0) await wake.promise
    }
  })
  return { teller, say, end: () => say(undefined) }
}

/** A pod behind a port, with a session, and the URL of a page. */
async function serve(t: TestContext, alias: string, source: (gateway: string) => Source) {
  const speech = createSpeech()
  const database = await databaseFor(t)
  const front: { port: number } = { port: 1 }
  const port = await portInFront(t, () => front.port)
  const at = `http://localhost:${port}`
  const host = await hostFor(t, source(at), at)
  const flags = { corsOrigins: `http://localhost:${host}` }
  const startPod = async () => {
    const made = await podOn(t, database, flags, { agents: [speech.teller] })
    front.port = Number(new URL(made.gateway).port)
    return made
  }
  const first = await startPod()
  await makeSession(first.gateway, { alias, title: 'Talk', agent: 'teller', members: ['ada'] })
  return { ...speech, first, startPod, url: `http://localhost:${host}/` }
}

/** A page that shows nothing yet. */
async function setUp(t: TestContext) {
  const { first, startPod, url, ...speech } = await serve(t, 'talk', () => STAGE)
  const page = await (await openChromium(t)).newPage()
  page.on('pageerror', (error) => {
    throw error
  })
  const asked: { readonly type: string; readonly session?: string }[] = []
  page.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => asked.push(JSON.parse(String(payload)) as { type: string })),
  )
  await page.clock.install()
  await page.addInitScript(keepTimers)
  await page.goto(url)
  await page.waitForFunction(() => 'stage' in globalThis)
  const { gateway, admin } = first
  return {
    ...speech,
    pod: first.pod,
    startPod,
    page,
    show: (view: string, how?: 'as a transition') =>
      page.evaluate(([view, how]) => (globalThis as unknown as InPage).stage.show(view, how), [
        view,
        how,
      ] as const),
    renders: () => page.evaluate(() => ({ ...(globalThis as unknown as InPage).stage.renders })),
    /** Writes a message to which the agent does not reply. */
    write: async (text: string) => {
      const sent = { message: { role: 'assistant', parts: [{ type: 'text', text }] } }
      assert.equal((await call('POST', `${gateway}/v1/sessions/talk/messages`, sent)).status, 200)
    },
    countAsked: (type: string) => asked.filter((one) => one.type === type).length,
    untilFollowers: (count: number, at = admin) =>
      eventually(async () => assert.equal(await followersOf(at), count), { what: `${count} followers` }),
    followers: () => followersOf(admin),
  }
}

async function followersOf(admin: string): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  return Number(/^fleetline_followers (\d+)$/m.exec(text)![1])
}

/** Keeps where each timer that has not fired was set. */
function keepTimers(): void {
  const { setTimeout, clearTimeout } = globalThis
  const timers = new Map<unknown, string>()
  Object.assign(globalThis, {
    timers,
    setTimeout: (call: () => void, ms?: number) => {
      const id = setTimeout(() => {
        timers.delete(id)
        call()
      }, ms)
      timers.set(id, `${ms} ms: ${new Error('set').stack ?? ''}`)
      return id
    },
    clearTimeout: (id: unknown) => {
      timers.delete(id)
      clearTimeout(id as number)
    },
  })
}

const timersOf = (page: Page) =>
  page.evaluate(() => Array.from((globalThis as unknown as InPage).timers.values()))
const said = (page: Page) => page.locator('li').allTextContents()

test('a chunk renders the message that is open and its list, and no other message', async (t) => {
  const { page, show, say, end, renders, write } = await setUp(t)
  for (const text of ['one', 'two', 'three']) await write(text)
  await show('chat')
  await page.locator('li:text-is("three")').waitFor()
  await page.locator('button:text-is("Send")').click()
  say('a')
  await page.locator('li[data-delivery=open]:text-is("a")').waitFor()
  const before = await renders()
  for (const [word, whole] of [
    ['b', 'ab'],
    ['c', 'abc'],
    ['d', 'abcd'],
  ] as const) {
    say(word)
    await page.locator(`li[data-delivery=open]:text-is("${whole}")`).waitFor()
  }
  const after = await renders()
  assert.deepEqual(after, { ...before, open: before['open']! + 3, list: before['list']! + 3 })
  end()
  await page.locator('li[data-delivery=sent]:text-is("abcd")').waitFor()
  const { 1: one, 2: two, 3: three } = await renders()
  assert.deepEqual([one, two, three], [1, 1, 1], 'messages that were there are rendered once')
})

test('components of one session show the same head in each commit, also while messages arrive during a transition', async (t) => {
  const { page, show, write } = await setUp(t)
  await write('one')
  await show('chat')
  await page.locator('li').waitFor()
  await show('nothing') // otherwise a message interrupts the transition, which then begins again
  let isOver = false
  const written = (async () => {
    for (; !isOver; await pause(50)) await write('more')
  })()
  await show('slow heads', 'as a transition')
  await page.locator('.head').nth(59).waitFor()
  await pause(500) // more messages arrive when it is on the page
  isOver = true
  await written
  const { seen, torn } = await page.evaluate(() => {
    const { seen, torn } = (globalThis as unknown as InPage).stage
    return { seen, torn }
  })
  const during = seen.filter(({ index, head }, at) => index > 0 && head !== seen[at - 1]!.head)
  t.diagnostic(`${during.length} heads changed while a tree was rendered`)
  assert.ok(during.length > 0, 'a message has arrived between two components of one rendering')
  assert.deepEqual(torn, [])
})

test('in strict mode a component joins once, and leaves nothing in between', async (t) => {
  const { page, show, write, countAsked, untilFollowers } = await setUp(t)
  await write('one')
  await show('strict chat')
  await page.locator('li:text-is("one")').waitFor()
  await untilFollowers(1)
  assert.deepEqual([countAsked('join'), countAsked('leave'), countAsked('hello')], [1, 0, 1])
})

test('a component that is replaced goes on with the same session', async (t) => {
  const { page, show, write, countAsked } = await setUp(t)
  await write('one')
  for (const view of ['chat', 'new chat', 'chat']) {
    await show(view)
    await page.locator('li:text-is("one")').waitFor()
  }
  await show('nothing')
  await page.clock.fastForward(LINGER_MS - 5_000)
  await show('chat')
  await page.clock.fastForward(10_000) // longer than since it was left
  await write('two')
  await page.locator('li:text-is("two")').waitFor()
  assert.deepEqual([countAsked('join'), countAsked('leave')], [1, 0])
  assert.equal(await page.evaluate(() => (globalThis as unknown as InPage).stage.countSessions()), 1)
})

test('when no component has used them for 30 s, sessions and inboxes are closed, and nothing remains', async (t) => {
  const { page, show, write, untilFollowers, followers, countAsked } = await setUp(t)
  await write('one')
  await show('chat')
  await page.locator('li:text-is("one")').waitFor()
  await show('inbox')
  await page.locator('nav:text-is("Talk")').waitFor()
  await untilFollowers(2)
  await show('nothing')
  await page.clock.fastForward(LINGER_MS - 10_000)
  await pause(300)
  assert.equal(await followers(), 2, 'they may be used again in a moment')
  await page.clock.fastForward(11_000)
  await untilFollowers(0)
  assert.equal(countAsked('leave'), 1)
  assert.equal(countAsked('inbox'), 2, 'on and off')
  await page.clock.fastForward(LINK_MS + 1_000)
  await eventually(async () => assert.deepEqual(await timersOf(page), []), { what: 'no timer' })

  await show('chat')
  await page.locator('li:text-is("one")').waitFor() // it is opened again
  await untilFollowers(1)
})

test('a message that was not stored when its component went away is sent, and then the session is closed', async (t) => {
  const { page, show, write, pod, startPod, untilFollowers } = await setUp(t)
  await write('one')
  await show('chat')
  await page.locator('li:text-is("one")').waitFor()
  await pod.stop()
  await page.locator('button:text-is("Send")').click()
  await page.locator('li[data-delivery=pending]').waitFor()
  await show('nothing')
  await page.clock.fastForward(LINGER_MS + 10_000)
  const { gateway, admin } = await startPod()
  await page.clock.fastForward(LINGER_MS) // a retry may have to wait that long
  const texts = async () => {
    const { body } = await call('GET', `${gateway}/v1/sessions/talk/messages`)
    return (body['items'] as { parts: { text: string }[] }[]).map(({ parts }) => parts[0]!.text)
  }
  await eventually(async () => assert.deepEqual(await texts(), ['one', 'from the page']), {
    what: 'the message',
  })
  await untilFollowers(0, admin)
})

const COUNT_LISTENERS = `
  globalThis.listeners = new Map()
  for (const [name, step] of [['addEventListener', 1], ['removeEventListener', -1]]) {
    const original = AbortSignal.prototype[name]
    AbortSignal.prototype[name] = function (...given) {
      listeners.set(this, (listeners.get(this) ?? 0) + step)
      original.apply(this, given)
    }
  }`

test('a rejected message is still there when a component uses its session again, however late', async (t) => {
  const { page, show, write, untilFollowers } = await setUp(t)
  await write('one')
  await show('chat')
  await page.locator('button:text-is("Send nothing")').click()
  await page.locator('li[data-delivery=failed]').waitFor()
  await show('nothing')
  await page.clock.fastForward(LINGER_MS + 1_000)
  await pause(300)
  await page.evaluate(COUNT_LISTENERS)
  for (let count = 0; count < 20; count += 1) await write(`${count}`)
  await show('chat')
  await page.locator('li:text-is("19")').waitFor()
  const most = await page.evaluate('Math.max(0, ...listeners.values())')
  assert.ok(Number(most) < 10, `${String(most)} listeners of one signal`)
  await page.locator('li[data-delivery=failed]').waitFor()
  await page.locator('button:text-is("Discard")').click()
  await show('nothing')
  await page.clock.fastForward(LINGER_MS + 1_000)
  await untilFollowers(0)
})

test('older messages are put before the others, which are not rendered again', async (t) => {
  const { page, show, write, renders } = await setUp(t)
  for (let count = 1; count <= 8; count += 1) await write(`${count}`)
  await show('chat')
  await page.locator('li:text-is("8")').waitFor()
  assert.deepEqual(await said(page), ['4', '5', '6', '7', '8'])
  await page.locator('button:text-is("Older")').click()
  await page.locator('li:text-is("1")').waitFor()
  assert.deepEqual(await said(page), ['1', '2', '3', '4', '5', '6', '7', '8'])
  assert.equal((await renders())['8'], 1)
  assert.equal(await page.locator('section').getAttribute('data-older'), 'false')
})

test('the page of the guide shows a reply while it is written, sends, and stops', async (t) => {
  const { say, url } = await serve(t, 'demo', guideFor)
  const page = await (await openChromium(t)).newPage()
  page.on('pageerror', (error) => {
    throw error
  })
  await page.goto(url)
  await page.getByLabel('Message').fill('good morning')
  await page.getByLabel('Message').press('Enter')
  await page.locator('li.sent:text-is("good morning")').waitFor()
  say('and')
  await page.locator('li.open:text-is("and")').waitFor()
  await page.getByText('Stop').click()
  await page.locator('li.sent:text-is("and")').waitFor()
  assert.equal(await page.getByLabel('Message').inputValue(), '')
})
