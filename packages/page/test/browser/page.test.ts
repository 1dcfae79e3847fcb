// What a visitor does on the page of a dev fleet besides watching a reply: scroll, copy, stop, kill, reload, open more tabs.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { cloneFor, startFleet } from '../../../server/test/support/clone.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { openChromium, openPage } from '../support/chromium.ts'
import { onDevice } from '../support/device.ts'

const CODE = '```ts\nconst answer = 42 // why\n```'
const WIDE_CODE = `\`\`\`\n${'x'.repeat(400)}\n\`\`\``
const TABLET = { width: 900, height: 700 }

type Visit = { readonly page: Page; readonly api: string }

const textOn = (page: Page, selector: string) => page.locator(selector).first().innerText()

async function post(api: string, path: string, body: unknown): Promise<void> {
  const answer = await fetch(`http://localhost:${api}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  assert.ok(answer.ok, await answer.text())
}

/** Makes the messages longer than the box that shows them. Otherwise nothing scrolls. */
async function fillTheLog({ page, api }: Visit): Promise<void> {
  for (const text of ['first', 'second']) {
    const parts = [{ type: 'text', text: `${text}\n\n${'a line\n\n'.repeat(30)}${CODE}\n\n${WIDE_CODE}` }]
    await post(api, 'sessions/demo/messages', {
      message: { id: `msg-${randomUUID()}`, role: 'assistant', parts },
    })
  }
  await page.locator('.log .code').nth(7).waitFor({ state: 'attached' }) // four on each device
}

async function itScrolls({ page }: Visit): Promise<void> {
  const laptop = page.locator(`.device[aria-label="Ada's laptop"]`)
  const [log, jump] = [laptop.locator('.log'), laptop.locator('.latest')]
  const isAtEnd = () => log.evaluate((list) => list.scrollHeight - list.scrollTop - list.clientHeight < 40)
  const scrollUp = () => log.evaluate((list) => (list.scrollTop = 0))
  assert.ok(await isAtEnd())
  assert.equal(await jump.count(), 0)
  await scrollUp()
  await jump.click()
  assert.ok(await isAtEnd(), 'after a jump')
  await scrollUp()
  await jump.waitFor()
  await onDevice(page, 'laptop').say('hello')
  await laptop.locator('.said:text-is("hello")').waitFor()
  assert.ok(await isAtEnd(), 'after a message of one’s own')
  assert.equal(await jump.count(), 0)
}

async function itNamesAndCopies({ page }: Visit): Promise<void> {
  const reply = page.locator('.reply:has-text("You said: hello")').first()
  assert.match(await reply.locator('.asked').innerText(), /hello$/)
  const code = page.locator('.code').first()
  assert.equal(await code.locator('.hljs-keyword').innerText(), 'const')
  await code.hover()
  await code.locator('.copy').click()
  await code.locator('.copy:text-is("Copied")').waitFor()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'const answer = 42 // why')
}

async function itWaitsAndStops({ page }: Visit): Promise<void> {
  await onDevice(page, 'laptop').press('slow')
  await page.locator('.trail:has-text("waits for the first words of the agent demo")').first().waitFor()
  await page.getByLabel("Message from Ada's laptop").press('Escape')
  const happened = page.locator('.events')
  await happened.locator('li:has-text("somebody stops the turn")').waitFor()
  await happened.locator('li:has-text("the agent of the stopped turn has ended")').waitFor()
  assert.doesNotMatch(await happened.innerText(), /comes too late/)
}

/** Kills the pod that writes the reply, and waits until the page shows it. */
async function aKillIsSeenAtOnce({ page }: Visit): Promise<void> {
  const pod = (await page.locator('.pod:has(.run)').getAttribute('aria-label', { timeout: 30_000 }))!
  const card = page.locator(`.pod[aria-label="${pod}"]`)
  assert.match(await card.locator('small').innerText(), /^no\. \d+$/)
  const seen = page.waitForResponse(async (answer) => {
    if (!answer.url().endsWith('/dev/scene')) return false
    const { pods } = (await answer.json()) as { pods: { name: string; state: string; number: unknown }[] }
    const killed = pods.find(({ name }) => name === pod)!
    return killed.state === 'waiting' && killed.number === null
  })
  await page.getByLabel(`Kill ${pod}`).click()
  await seen
  await card.locator('p:has-text("killed")').waitFor()
  assert.equal(await card.locator('small').count(), 0)
}

async function aTrailOutlivesAReload(visit: Visit): Promise<void> {
  const { page } = visit
  await onDevice(page, 'laptop').press('think')
  await aKillIsSeenAtOnce(visit)
  const resumed = page.locator('.trail:has(.lost) .now:text("resumed on pod-")')
  await eventually(async () => assert.equal(await resumed.count(), 2), { what: 'the reply to go on' })
  const words = await resumed.first().innerText()
  await page.reload()
  await eventually(async () => assert.equal(await resumed.count(), 2), { what: 'its trail after the reload' })
  assert.equal(await resumed.first().innerText(), words)
}

async function itShowsWork({ page, api }: Visit): Promise<void> {
  await post(api, 'tasks', { machine: 'greet', input: { name: 'Ann' } })
  await page.locator('.work p:has-text("greet done")').waitFor()
  assert.match(await textOn(page, '.work tbody'), /default \/ greet/)
}

async function nothingOverflows({ page }: Visit): Promise<void> {
  await page.setViewportSize(TABLET)
  const wide = await page.evaluate(() =>
    Array.from(document.querySelectorAll('html, .top, .device, .device > header, .log, .compose'))
      .filter((one) => one.scrollWidth > one.clientWidth)
      .map((one) => one.className || one.localName),
  )
  assert.deepEqual(wide, [])
  const outside = await page.evaluate(() =>
    Array.from(document.querySelectorAll('.top *'))
      .filter((one) => one.getBoundingClientRect().right > innerWidth)
      .map((one) => one.className || one.localName),
  )
  assert.deepEqual(outside, [])
}

/** Tabs of one browser share its connections. */
async function aSecondTabWaits({ page }: Visit): Promise<void> {
  const second = await page.context().newPage()
  await second.goto(page.url())
  assert.match(await textOn(second, '.crowded'), /Close the other tab/)
  await page.close()
  await second.locator('.live.good').first().waitFor()
}

/** A message elsewhere puts a number on its conversation, on both devices. Opening it takes both away. */
async function unreadMessagesShow({ page, api }: Visit): Promise<void> {
  const devices = page.locator('.conversations')
  const [named, numbers] = [devices.locator('a:has-text("lunch")'), devices.locator('b')]
  await post(api, 'sessions', { alias: 'lunch', title: 'lunch', members: ['ada'] })
  await post(api, 'sessions/lunch/messages', { text: 'Pizza at noon?', author: 'ben' })
  await eventually(async () => assert.deepEqual(await numbers.allInnerTexts(), ['1', '1']), {
    what: 'a number on each device',
  })
  await named.first().click()
  await page.locator('.said:text-is("Pizza at noon?")').first().waitFor()
  await eventually(async () => assert.equal(await named.count(), 2), { what: 'the conversations again' })
  const inbox = async () => {
    const answer = await fetch(`http://localhost:${api}/v1/inbox?user=ada`)
    return ((await answer.json()) as { unreadTotal: number }).unreadTotal
  }
  await eventually(async () => assert.equal(await inbox(), 0), { what: 'the read' })
  assert.equal(await numbers.count(), 0)
  await page.goBack()
  await page.locator('.reply').first().waitFor()
}

/** A device begins with the last 50 messages. What the reader looks at stays where it is when older ones come. */
async function olderMessagesOnDemand({ page, api }: Visit): Promise<void> {
  await post(api, 'sessions', { alias: 'history', title: 'history', members: ['ada'] })
  for (let number = 1; number <= 70; number += 1)
    await post(api, 'sessions/history/messages', { text: `no. ${number}`, author: 'ben' })
  const here = page.url()
  await page.goto(`${new URL(here).origin}/?session=history`)
  const laptop = page.locator(`.device[aria-label="Ada's laptop"]`)
  const [log, older] = [laptop.locator('.log'), laptop.locator('.older')]
  const [first, last] = [laptop.locator('.said:text-is("no. 21")'), laptop.locator('.said:text-is("no. 70")')]
  await last.waitFor()
  const shown = () => laptop.locator('.said').count()
  const placeOf = async () => Math.round((await first.boundingBox())!.y)
  assert.equal(await shown(), 50)
  await log.evaluate((list) => (list.scrollTop = 0))
  await laptop.locator('.latest').waitFor()
  const before = await placeOf()
  await older.click()
  await eventually(async () => assert.equal(await shown(), 70), { what: 'older messages' })
  await older.waitFor({ state: 'detached' })
  const moved = Math.abs((await placeOf()) - before)
  assert.ok(moved < 60, `the first one has moved by ${moved} px`) // the button has gone
  await page.goto(here)
  await page.locator('.reply').first().waitFor()
}

test('a visitor scrolls, copies, stops, kills, reloads, opens conversations, old messages and a second tab', async (t) => {
  const fleet = await startFleet(t, 'npm run fleetline -- dev examples/queue/app.ts --no-model', cloneFor(t))
  const page = await openPage(await openChromium(t), fleet.page)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  const visit = { page, api: fleet.api }
  await fillTheLog(visit)
  await itScrolls(visit)
  await itNamesAndCopies(visit)
  await itShowsWork(visit)
  await itWaitsAndStops(visit)
  await aTrailOutlivesAReload(visit)
  await nothingOverflows(visit)
  await unreadMessagesShow(visit)
  await olderMessagesOnDemand(visit)
  await aSecondTabWaits(visit)
  assert.equal(await fleet.stop(), 0, fleet.output())
})
