// examples/use-chat in Chromium, with releases 5, 6 and 7 of the AI SDK: `useChat` as it is, with another URL. Needs a network.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { UIMessage } from 'ai'
import type { Page } from 'playwright-core'
import { eventually } from '../../../server/test/support/eventually.ts'
import { call } from '../../../server/test/support/http.ts'
import { openChromium } from '../support/chromium.ts'
import { startCounter } from '../support/counter.ts'
import { installExample } from '../support/example.ts'

const PICTURES = process.env['PICTURES'] ?? mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))
const RELEASES = {
  '7': { ai: '7.0.163', '@ai-sdk/react': '4.0.167' },
  '6': { ai: '6.0.322', '@ai-sdk/react': '3.0.325' },
  '5': { ai: '5.0.277', '@ai-sdk/react': '2.0.280' },
}

async function setUp(t: TestContext) {
  const { gateway, key, ...counter } = await startCounter(t)
  const loaded = async (id: string) => {
    const { body } = await call('POST', `${gateway}/v1/tokens`, { user: 'ada' }, key)
    const headers = { authorization: `Bearer ${String(body['token'])}` }
    return (await (await fetch(`${gateway}/v1/chat/${id}/messages`, { headers })).json()) as UIMessage[]
  }
  return { ...counter, loaded }
}

const box = (page: Page) => page.getByLabel('Message', { exact: true })
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const say = async (page: Page, text: string) => {
  await box(page).fill(text)
  await page.locator('form button:enabled').first().click() // once the messages are loaded
}
const texts = (page: Page) => page.locator('article p').allInnerTexts()
const shows = (page: Page, ...wanted: string[]) => {
  let errors: string[] = []
  return eventually(
    async () => {
      errors = await page.locator('[role=alert]').allInnerTexts()
      assert.deepEqual([...(await texts(page)), await page.locator('output').innerText()], wanted)
    },
    { what: `the page to show ${wanted.join(' | ')}`, details: () => errors.join() },
  )
}

for (const [release, versions] of Object.entries(RELEASES))
  test(`useChat of release ${release}: send, reload in the middle, second tab, stop, regenerate, edit, a pod that dies; the page shows what is stored`, async (t) => {
    mkdirSync(PICTURES, { recursive: true })
    const example = installExample('use-chat', versions)
    t.after(example.remove)
    example.run('npx', 'vite', 'build')
    const { pod, startPod, loaded, goOn, wait, env } = await setUp(t)
    const url = await example.serve(t, env, 'preview')
    const browser = await openChromium(t)
    const page = await browser.newPage({ colorScheme: 'light' })
    await page.goto(`${url}#trip-${release}`)
    await say(page, 'Rome?')
    await shows(page, 'Rome?', 'reply 1 to Rome?.', 'ready')

    await say(page, 'wait')
    await shows(page, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait', 'streaming')
    await page.reload()
    await shows(page, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait', 'streaming')
    const tab = await browser.newPage()
    await tab.goto(`${url}#trip-${release}`)
    await shows(tab, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait', 'streaming')
    goOn()
    for (const one of [page, tab])
      await shows(one, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 2 to wait.', 'ready')
    await tab.close()

    wait()
    await button(page, 'Regenerate').click()
    await shows(page, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 3 to wait', 'streaming')
    await page.screenshot({ path: join(PICTURES, `use-chat-${release}.png`), animations: 'disabled' })
    await button(page, 'Stop').click()
    await shows(page, 'Rome?', 'reply 1 to Rome?.', 'wait', 'reply 3 to wait', 'ready')
    await button(page, 'Edit').nth(1).click()
    await say(page, 'Naples?')
    await shows(page, 'Rome?', 'reply 1 to Rome?.', 'Naples?', 'reply 4 to Naples?.', 'ready')

    await say(page, 'wait again')
    await shows(
      page,
      'Rome?',
      'reply 1 to Rome?.',
      'Naples?',
      'reply 4 to Naples?.',
      'wait again',
      'reply 5 to wait again',
      'streaming',
    )
    await startPod()
    await pod.stop()
    goOn()
    const last = [
      'Rome?',
      'reply 1 to Rome?.',
      'Naples?',
      'reply 4 to Naples?.',
      'wait again',
      'reply 6 to wait again.',
    ]
    await shows(page, ...last, 'ready')
    const stored = await loaded(`trip-${release}`)
    assert.deepEqual(
      stored.map(({ parts }) => parts.map((part) => ('text' in part ? part.text : '')).join('')),
      last,
    )
  })
