// L3 L4: pages that keep their outbox in the browser. What they send is stored once and in order, although connections are cut, pods are
// killed, the page is loaded again, and tabs are closed while nothing can be sent.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { BrowserContext, Page } from 'playwright-core'
import type { Page as MessagePage } from '@fleetline/protocol'
import { cuttableFront } from '../../../client/test/support/cuttable-front.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { call, makeSession } from '../../../server/test/support/http.ts'
import { podOn } from '../../../server/test/support/pod.ts'
import { startPod } from '../../../server/test/support/pods.ts'
import { openChromium } from '../support/chromium.ts'
import { serveProgram } from '../support/program-host.ts'

const SOURCES = join(import.meta.dirname, '../../../client/src')
const PATIENCE_MS = 60_000

/** What the page does: it opens the session, and notes the id of each message whenever it sends it, over the socket or over HTTP. */
const PROGRAM = `
import { createClient } from ${JSON.stringify(join(SOURCES, 'index.ts'))}
import { indexedDbOutbox } from ${JSON.stringify(join(SOURCES, 'indexeddb.ts'))}

const sends = []
const errors = []
class Noting extends WebSocket {
  send(data) {
    const { type, message } = JSON.parse(data)
    if (type === 'send') sends.push(message.id)
    super.send(data)
  }
}
const client = createClient({
  url: document.body.dataset.gateway,
  outbox: indexedDbOutbox({ user: 'ada', onError: (error) => errors.push(String(error)) }),
  random: () => 0.01,
  WebSocket: Noting,
  fetch: (url, init) => {
    if (init?.method === 'POST') sends.push(JSON.parse(init.body).message.id)
    return fetch(url, init)
  },
})
const session = client.session('talk')
Object.assign(globalThis, { session, sends, errors })
`

type InPage = {
  readonly session: {
    readonly send: (text: string) => { readonly sent: Promise<unknown> }
    readonly get: () => {
      readonly messages: readonly {
        readonly delivery: string
        readonly parts: readonly { readonly text: string }[]
      }[]
    }
    readonly ready: Promise<void>
  }
  readonly sends: readonly string[]
  readonly errors: readonly string[]
}

/** Sends these texts. Resolves when the first `awaited` ones are stored. */
const send = (page: Page, texts: readonly string[], awaited: number) =>
  page.evaluate(
    async ([texts, awaited]) => {
      const { session } = globalThis as unknown as InPage
      const sent = texts.map((text) => session.send(text).sent)
      await Promise.all(sent.slice(0, awaited))
    },
    [texts, awaited] as const,
  )
const shown = (page: Page) =>
  page.evaluate(() =>
    (globalThis as unknown as InPage).session
      .get()
      .messages.map(({ delivery, parts }) => `${delivery} ${parts[0]!.text}`),
  )
const sendsOf = (page: Page) => page.evaluate(() => [...(globalThis as unknown as InPage).sends])
const errorsOf = (page: Page) => page.evaluate(() => [...(globalThis as unknown as InPage).errors])
/** How many messages the browser keeps. */
const kept = (page: Page) =>
  page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        const opening = indexedDB.open('fleetline outbox of ada')
        opening.addEventListener('success', () => {
          const { result: database } = opening
          const counting = database.transaction('messages').objectStore('messages').count()
          counting.addEventListener('success', () => {
            database.close()
            resolve(counting.result)
          })
        })
      }),
  )

async function hostFor(t: TestContext) {
  let gateway = ''
  const port = await serveProgram(t, PROGRAM, (_, response) => {
    response
      .writeHead(200, { 'content-type': 'text/html' })
      .end(`<body data-gateway="${gateway}"><script type="module" src="/program.js"></script>`)
  })
  const origin = `http://127.0.0.1:${port}`
  return {
    origin,
    lead: (to: string) => void (gateway = to),
    open: async (context: BrowserContext) => {
      const page = await context.newPage()
      await page.goto(origin)
      await page.evaluate(() => (globalThis as unknown as InPage).session.ready)
      return page
    },
  }
}

async function stored(gateway: string): Promise<string[]> {
  const { body } = await call('GET', `${gateway}/v1/sessions/talk/messages?limit=100`)
  return (body as unknown as MessagePage).items.map(({ parts }) => String(parts[0]!['text']))
}

const textsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `${from + index}`)
const isEmpty = (page: Page) =>
  eventually(async () => assert.equal(await kept(page), 0), {
    what: 'an empty outbox',
    patienceMs: PATIENCE_MS,
  })

test('L3 L4: fifty messages are stored once and in order, although five connections are cut, two pods killed, and the page is loaded again', async (t) => {
  const host = await hostFor(t)
  const url = await databaseFor(t)
  const env = { FLEETLINE_CORS_ORIGINS: host.origin }
  const pods = await Promise.all([startPod(t, url, env), startPod(t, url, env)])
  let isDown = false
  const portOf = (gateway: string) => Number(new URL(gateway).port)
  const { gateway, cut } = await cuttableFront(t, () => (isDown ? undefined : portOf(pods.at(-1)!.gateway)))
  host.lead(gateway)
  await makeSession(gateway, { alias: 'talk' })
  const page = await host.open(await (await openChromium(t)).newContext())
  for (let batch = 0; batch < 5; batch += 1) {
    const texts = textsOf(10 * batch, 10)
    if (batch === 2) {
      isDown = true
      cut()
      await send(page, texts, 0)
      await eventually(
        async () => {
          const pending = (await shown(page)).filter((row) => row.startsWith('pending')).length
          assert.ok(pending >= 10 && (await kept(page)) >= pending)
        },
        { what: 'the messages to be kept' },
      )
      await page.reload()
      pods.push(await startPod(t, url, env))
      isDown = false
      await eventually(async () => assert.equal((await shown(page)).length, 30), {
        what: 'the messages from before',
        patienceMs: PATIENCE_MS,
      })
    } else {
      await send(page, texts, 4)
      cut()
    }
    if (batch === 1 || batch === 3) pods.pop()!.program.kill()
  }
  const all = textsOf(0, 50)
  await eventually(
    async () =>
      assert.deepEqual(
        await shown(page),
        all.map((text) => `sent ${text}`),
      ),
    {
      what: 'all messages',
      patienceMs: PATIENCE_MS,
    },
  )
  assert.deepEqual(await stored(gateway), all)
  await isEmpty(page)
  assert.deepEqual(await errorsOf(page), [])
})

test('L3 L4: tabs with one outbox send nothing twice, and the last one sends what closed ones have left', async (t) => {
  const host = await hostFor(t)
  const { gateway: pod } = await podOn(t, await databaseFor(t), { corsOrigins: host.origin })
  let isDown = false
  const { gateway, cut } = await cuttableFront(t, () => (isDown ? undefined : Number(new URL(pod).port)))
  host.lead(gateway)
  await makeSession(pod, { alias: 'talk' })
  const context = await (await openChromium(t)).newContext()
  const tabs = [await host.open(context), await host.open(context), await host.open(context)] as const
  const [first, second, third] = tabs

  await Promise.all(tabs.map((tab, index) => send(tab, textsOf(10 * index, 10), 10)))
  assert.deepEqual(
    (await stored(pod)).toSorted((a, b) => Number(a) - Number(b)),
    textsOf(0, 30),
  )
  const sends = (await Promise.all(tabs.map(sendsOf))).flat()
  assert.deepEqual([sends.length, new Set(sends).size], [30, 30], 'each message was sent once')
  await isEmpty(first)

  isDown = true
  cut()
  await send(first, textsOf(30, 5), 0)
  await eventually(async () => assert.equal(await kept(third), 5), { what: 'the messages to be kept' })
  const has = (tab: Page, count: number) =>
    eventually(
      async () => assert.equal((await shown(tab)).filter((one) => one.startsWith('pending')).length, count),
      {
        what: 'a tab to take them over',
      },
    )
  await first.close()
  const holders = async () =>
    Promise.all(
      [second, third].map(async (tab) => (await shown(tab)).some((one) => one.startsWith('pending'))),
    )
  await eventually(async () => assert.equal((await holders()).filter(Boolean).length, 1), {
    what: 'one tab to take them over',
  })
  const [holder, other] = (await holders())[0] ? [second, third] : [third, second]
  await holder.close()
  await has(other, 5)
  isDown = false
  await isEmpty(other)
  assert.deepEqual((await stored(pod)).slice(30), textsOf(30, 5))
  assert.deepEqual(await errorsOf(other), [])
})
