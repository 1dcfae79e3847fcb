// examples/chat as a reader gets it: installed from the registry with the packed client, built by Vite, and used in Chromium. Needs a
// network.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, after, test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { agent, type AgentCall } from '../../../server/src/agent/agent.ts'
import { cloneFor, startFleet } from '../../../server/test/support/clone.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { portInFront } from '../../../server/test/support/front.ts'
import { call } from '../../../server/test/support/http.ts'
import { CLOSED, podOn } from '../../../server/test/support/pod.ts'
import { openChromium } from '../support/chromium.ts'
import { installExample, type Example } from '../support/example.ts'

const PICTURES = process.env['PICTURES'] ?? mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))
const NOTES = 120

let example: Example

before(() => {
  example = installExample('chat')
  mkdirSync(PICTURES, { recursive: true })
})
after(() => example.remove())

const REPLY = `A day in Rome, without a car:

1. **Colosseum** at eight, before the queues
2. Lunch in *Monti*
3. The river at dusk

| where | minutes on foot |
|---|---|
| Colosseum to Monti | 12 |
| Monti to the river | 25 |

\`\`\`ts
const steps = route.map(({ minutes }) => minutes * 110)
\`\`\`

<img src="/nowhere" onerror="document.title = 'taken over'">

[A link](javascript:takeOver())`

/** Says the text above; if it is asked to wait, it waits after some words. */
async function* answer({ messages, signal }: AgentCall) {
  const [part] = messages.findLast(({ role }) => role === 'user')!.parts
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  const isWaiting = String(part?.['text']).includes('wait')
  for (const delta of isWaiting ? ['Let me think'] : REPLY.split(/(?<= )/)) {
    yield { type: 'text-delta', id: '1', delta }
    await pause(10, undefined, { signal })
  }
  if (isWaiting) await pause(60_000, undefined, { signal })
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}

/** A pod that wants keys, behind a port; Ada has many notes. */
async function setUp(t: TestContext) {
  const url = await databaseFor(t)
  const front = { port: 1 }
  const gateway = `http://localhost:${await portInFront(t, () => front.port)}`
  const startPod = async () => {
    const made = await podOn(t, url, CLOSED, { agents: [agent('guide', answer)] })
    front.port = Number(new URL(made.gateway).port)
    return made.pod
  }
  const pod = await startPod()
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend', scopes: ['tokens:mint'] })
  const scopes = ['sessions:write', 'agents:write']
  const { key: ours } = await pod.keys.create({ tenant: 'dev', name: 'test', scopes })
  const ask = async (method: string, path: string, body: object) => {
    const { status, body: answered } = await call(method, `${gateway}/v1${path}`, body, ours)
    assert.ok(status < 300, JSON.stringify(answered))
  }
  await ask('PATCH', '/tenant', { defaultAgent: 'guide' })
  await ask('POST', '/sessions', { alias: 'notes', title: 'Notes', members: ['ada', 'ben'] })
  for (let number = 1; number <= NOTES; number += 1)
    await ask('POST', '/sessions/notes/messages', { text: `note ${number}`, author: 'ben' })
  return { pod, startPod, env: { FLEETLINE_URL: gateway, FLEETLINE_API_KEY: key } }
}

async function open(t: TestContext, url: string): Promise<Page> {
  const page = await (await openChromium(t)).newPage({ colorScheme: 'light' })
  page.on('pageerror', (error) => {
    throw error
  })
  await page.goto(url)
  return page
}

const box = (page: Page) => page.getByLabel('Message', { exact: true })
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const picture = (page: Page, name: string) =>
  page.screenshot({ path: join(PICTURES, `chat-${name}.png`), animations: 'disabled' })

async function olderMessages(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Notes' }).click()
  const notes = page.locator('article')
  await notes.getByText(`note ${NOTES}`, { exact: true }).waitFor()
  assert.equal(await notes.count(), 50)
  const first = notes.getByText(`note ${NOTES - 49}`, { exact: true })
  await first.scrollIntoViewIfNeeded()
  const { y } = (await first.boundingBox())!
  await button(page, 'Older messages').click()
  await notes.getByText(`note ${NOTES - 99}`, { exact: true }).waitFor({ state: 'attached' })
  await eventually(async () => assert.ok(Math.abs((await first.boundingBox())!.y - y) < 100), {
    what: 'the message to stay where it was, although the button stays, too',
  })
  await button(page, 'Older messages').click()
  await notes.getByText('note 1', { exact: true }).waitFor({ state: 'attached' })
  assert.equal(await notes.count(), NOTES)
  assert.equal(await button(page, 'Older messages').count(), 0)
  await page.locator('nav i').waitFor({ state: 'detached' }) // it is read
}

async function aReply(page: Page): Promise<void> {
  await button(page, 'New chat').click()
  await page.getByText('What is on your mind?').waitFor()
  await box(page).fill('A day in Rome,')
  await box(page).press('Shift+Enter')
  await box(page).pressSequentially('please')
  await box(page).press('Enter')
  const reply = page.locator('article.assistant')
  await reply.and(page.locator('.open')).waitFor()
  await reply.and(page.locator('.sent')).waitFor()
  await page.locator('nav a b:text("A day in Rome, please")').waitFor()
  assert.equal(await page.locator('article.user').innerText(), 'A day in Rome,\nplease')
  assert.equal(await reply.locator('ol > li').count(), 3)
  assert.equal(await reply.locator('td').count(), 4)
  assert.equal(await reply.locator('img').count(), 0)
  assert.equal(await reply.locator('a').getAttribute('href'), '')
  assert.notEqual(await page.title(), 'taken over')
  assert.ok(await box(page).evaluate((one) => one === document.activeElement))
}

async function aStop(page: Page): Promise<void> {
  await box(page).fill('wait')
  await button(page, 'Send').click()
  await page.getByText('Let me think').waitFor()
  await button(page, 'Stop').click()
  await page.locator('article.assistant.sent:has-text("Let me think") small:text-is("stopped")').waitFor()
  await button(page, 'Send').waitFor()
}

async function aRejection(page: Page): Promise<void> {
  await box(page).fill('x'.repeat(2_000_000))
  await button(page, 'Send').click()
  const failed = page.locator('article.failed')
  await failed.waitFor()
  await failed.getByRole('button', { name: 'Retry' }).click()
  await failed.getByRole('button', { name: 'Discard' }).click()
  await failed.waitFor({ state: 'detached' })
}

test('a visitor of the example reads, writes, stops, and goes on after an outage', async (t) => {
  example.run('npm', 'run', 'build')
  const { pod, startPod, env } = await setUp(t)
  const page = await open(t, await example.serve(t, env, 'preview'))
  await olderMessages(page)
  await aReply(page)
  await picture(page, 'light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await picture(page, 'dark')
  await aStop(page)
  await aRejection(page)

  await pod.stop()
  await page.locator('.banner').waitFor()
  await box(page).fill('Still there?')
  await box(page).press('Enter')
  await page.locator('article.pending').waitFor()
  await picture(page, 'offline')
  await startPod()
  await page.evaluate(() => dispatchEvent(new Event('online'))) // a device notices; otherwise it may wait for up to 30 s
  await page.locator('.banner').waitFor({ state: 'detached' })
  await page.locator('article.assistant.sent').nth(2).waitFor()
  assert.equal(await page.locator('article.user:text-is("Still there?")').count(), 1)

  await page.setViewportSize({ width: 390, height: 844 })
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
  assert.equal(isWide, false)
  await picture(page, 'narrow')
  await page.reload()
  await page.locator('article.user:text-is("Still there?")').waitFor() // the address names the chat
})

test('the example works with a dev fleet, without keys', async (t) => {
  const fleet = await startFleet(t, 'npm run fleetline -- dev --no-model', cloneFor(t))
  const page = await open(t, await example.serve(t, { FLEETLINE_URL: `http://localhost:${fleet.api}` }))
  await page.getByRole('link', { name: 'Demo' }).waitFor()
  await button(page, 'New chat').click()
  await box(page).fill('think')
  await box(page).press('Enter')
  await page.locator('article.assistant.sent').waitFor()
})

test('hot reload keeps the session: no second join, and the text in the box stays', async (t) => {
  const { env } = await setUp(t)
  const asked: string[] = []
  const url = await example.serve(t, env)
  const page = await (await openChromium(t)).newPage()
  page.on('websocket', (socket) => {
    if (socket.url().endsWith('/v1/socket'))
      socket.on('framesent', ({ payload }) =>
        asked.push((JSON.parse(String(payload)) as { type: string }).type),
      )
  })
  await page.goto(`${url}#notes`)
  await page.locator('article').getByText(`note ${NOTES}`, { exact: true }).waitFor()
  await box(page).fill('half a sentence')
  const chat = join(example.home, 'src/chat.tsx')
  writeFileSync(
    chat,
    readFileSync(chat, 'utf8').replace('placeholder="Message"', 'placeholder="Say something"'),
  )
  await page.getByPlaceholder('Say something').waitFor()
  assert.equal(await box(page).inputValue(), 'half a sentence')
  assert.deepEqual(
    asked.filter((type) => ['join', 'leave', 'hello'].includes(type)),
    ['hello', 'join'],
  )
})
