// examples/assistant-ui as a reader gets it: installed from the registry with the packed client, built by Vite, and used in Chromium in two
// tabs. Needs a network.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { cloneFor, startFleet } from '../../../server/test/support/clone.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { NARROW, openChromium } from '../support/chromium.ts'
import { startCounter } from '../support/counter.ts'
import { installExample, type Example } from '../support/example.ts'

const PICTURES = process.env['PICTURES'] ?? mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))

let example: Example

before(() => {
  example = installExample('assistant-ui')
  mkdirSync(PICTURES, { recursive: true })
})
after(() => example.remove())

async function open(browser: Browser, url: string): Promise<Page> {
  const page = await browser.newPage({ colorScheme: 'light' })
  page.on('pageerror', (error) => {
    throw error
  })
  page.on('dialog', (dialog) => void dialog.accept('To Rome'))
  await page.goto(url)
  return page
}

const box = (page: Page) => page.getByLabel('Message', { exact: true })
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const message = (page: Page, text: string) => page.locator('.message', { hasText: text })
const thread = (page: Page, name: string) => page.locator('.item', { hasText: name })
const picture = (page: Page, name: string) =>
  page.screenshot({ path: join(PICTURES, `assistant-ui-${name}.png`), animations: 'disabled' })
const say = async (page: Page, text: string) => {
  await box(page).fill(text)
  await box(page).press('Enter')
}
/** The texts of the messages; a text that ends in … belongs to a reply that is being written. */
const shows = (page: Page, ...wanted: string[]) =>
  eventually(
    async () => {
      const texts = await page.locator('.message').evaluateAll((all) =>
        all.map((one) => {
          const text = Array.from(one.querySelectorAll('.text, small'), (part) => part.textContent).join(' ')
          return one.classList.contains('running') ? `${text}…` : text
        }),
      )
      assert.deepEqual(texts, wanted)
    },
    { what: `the page to show ${wanted.join(' | ')}` },
  )

test('a visitor writes, stops, edits and regenerates in assistant-ui; another tab shows the same; threads are switched, renamed and archived', async (t) => {
  example.run('npm', 'run', 'build')
  const { goOn, wait, env } = await startCounter(t)
  const url = await example.serve(t, env, 'preview')
  const browser = await openChromium(t)
  const page = await open(browser, url)
  await button(page, 'New chat').click()
  await page.getByText('What is on your mind?').waitFor()
  await say(page, 'Rome?')
  await shows(page, 'Rome?', 'reply 1 to Rome?.')

  await say(page, 'wait')
  await shows(page, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait…')
  const tab = await open(browser, page.url())
  await page.reload()
  for (const one of [page, tab]) await shows(one, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait…')
  goOn()
  for (const one of [page, tab]) await shows(one, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait.')

  wait()
  await message(page, 'reply 2').hover()
  await message(page, 'reply 2').getByRole('button', { name: 'Regenerate' }).click()
  for (const one of [page, tab]) await shows(one, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 3 to wait…')
  await picture(page, 'light')
  await button(tab, 'Stop').click()
  for (const one of [page, tab])
    await shows(one, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 3 to wait stopped')
  await message(page, 'Rome?').first().hover()
  await button(page, 'Edit').first().click()
  await page.getByLabel('Edited message').fill('Naples?')
  await button(page, 'Save').click()
  for (const one of [page, tab]) await shows(one, 'Naples?', 'reply 4 to Naples?.')
  await tab.close()

  await say(page, 'x'.repeat(300_000))
  await button(page, 'Retry').click()
  await button(page, 'Discard').click()
  await shows(page, 'Naples?', 'reply 4 to Naples?.')

  await button(page, 'New chat').click()
  await page.getByText('What is on your mind?').waitFor()
  await say(page, 'Milan?')
  await shows(page, 'Milan?', 'reply 5 to Milan?.')
  await thread(page, 'Naples').locator('.open').click()
  await shows(page, 'Naples?', 'reply 4 to Naples?.')
  await thread(page, 'Naples').hover()
  await thread(page, 'Naples').getByRole('button', { name: 'Rename' }).click()
  await thread(page, 'To Rome').waitFor()
  await page.emulateMedia({ colorScheme: 'dark' })
  await picture(page, 'dark')
  await thread(page, 'To Rome').getByRole('button', { name: 'Archive' }).click()
  await page.getByText('Archived').click()
  await page
    .locator('details .item', { hasText: 'To Rome' })
    .getByRole('button', { name: 'Bring back' })
    .click()
  await page.locator('details').waitFor({ state: 'detached' })
  await thread(page, 'To Rome').waitFor()

  await page.setViewportSize(NARROW)
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false)
  await picture(page, 'narrow')
})

test('the example works with a dev fleet, without keys', async (t) => {
  const fleet = await startFleet(t, 'npm run fleetline -- dev --no-model', cloneFor(t))
  const served = await example.serve(t, { FLEETLINE_URL: `http://localhost:${fleet.api}` })
  const page = await open(await openChromium(t), served)
  await thread(page, 'Demo').waitFor()
  await say(page, 'think')
  await page.locator('.assistant.complete').waitFor()
  await page.locator('.assistant summary', { hasText: 'Thoughts' }).waitFor()
})
