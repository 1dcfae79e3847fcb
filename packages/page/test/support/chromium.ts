// Opens the page of a fleet in a real Chromium with a profile of its own. Chromium is in no process group of ours. A pipe
// connects it to this process, so it ends with this process at the latest. An error that the page throws ends the test.
import type { TestContext } from 'node:test'
import { chromium, type Browser, type Page } from 'playwright-core'
import { atEnd } from '../../../server/test/support/cleanup.ts'

const WIDE = { width: 1280, height: 800 }
export const NARROW = { width: 390, height: 844 }

const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium' // Debian: apt-get install chromium

export async function openChromium(t: TestContext): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: EXECUTABLE,
    chromiumSandbox: false, // the page is ours, and root in a container cannot use the sandbox
    args: ['--disable-gpu', '--disable-quic'], // neither is available here
  })
  atEnd(t, () => browser.close())
  return browser
}

/** Opens the page and waits until both devices are live. A narrow page shows only one of them. */
export async function openPage(browser: Browser, port: string, viewport = WIDE): Promise<Page> {
  const context = await browser.newContext({ viewport, colorScheme: 'light' })
  const page = await context.newPage()
  page.on('pageerror', (error) => {
    throw error
  })
  await page.addInitScript(watchMoves)
  await page.goto(`http://localhost:${port}/`)
  for (const device of ['laptop', 'phone'])
    await page.locator(`.device[aria-label="Ada's ${device}"] .live.good`).waitFor({ state: 'attached' })
  return page
}

/** Resolves to the elements that moved since the last call although nobody touched the page. The caret does not count. */
export function movedOn(page: Page): Promise<string[]> {
  return page.evaluate(() => (globalThis as unknown as Watched).moved.splice(0))
}

type Watched = { readonly moved: string[] }
type Shift = PerformanceEntry & {
  readonly hadRecentInput: boolean
  /** `node` is null for what the style draws, such as the caret. */
  readonly sources: readonly { readonly node: Node | null }[]
}

function watchMoves(): void {
  const moved: string[] = []
  Object.assign(globalThis, { moved } satisfies Watched)
  new PerformanceObserver((list) => {
    const shifts = list.getEntries() as Shift[]
    for (const { node } of shifts.filter((one) => !one.hadRecentInput).flatMap(({ sources }) => sources)) {
      const element = node instanceof Element ? node : node?.parentElement
      if (element) moved.push(`${element.localName}.${element.className}`)
    }
  }).observe({ type: 'layout-shift' })
}
