// The page of a fleet in a real Chromium, with a profile of its own. It hangs on a pipe of this process and ends with it at the
// latest, although it is in no process group of ours. An error that the page throws ends the test.
import type { TestContext } from 'node:test'
import { chromium, type Browser, type Page } from 'playwright-core'
import { atEnd } from '../../../server/test/support/cleanup.ts'

const WIDE = { width: 1280, height: 800 }
export const NARROW = { width: 390, height: 844 }

const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium' // Debian: apt-get install chromium

export async function openChromium(t: TestContext): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: EXECUTABLE,
    chromiumSandbox: false, // the page is ours, and a container's root has no other way
    args: ['--disable-gpu', '--disable-quic'], // nothing here has either
  })
  atEnd(t, () => browser.close())
  return browser
}

/** With both devices live, of which a narrow page shows one. */
export async function openPage(browser: Browser, port: string, viewport = WIDE): Promise<Page> {
  const page = await browser.newPage({ viewport, colorScheme: 'light' })
  page.on('pageerror', (error) => {
    throw error
  })
  await page.addInitScript(watchMoves)
  await page.goto(`http://localhost:${port}/`)
  for (const device of ['laptop', 'phone'])
    await page.locator(`.device[aria-label="Ann's ${device}"] .live.good`).waitFor({ state: 'attached' })
  return page
}

/** The elements that moved since they were asked for last, although nobody had touched the page. The caret is none. */
export function movedOn(page: Page): Promise<string[]> {
  return page.evaluate(() => (globalThis as unknown as Watched).moved.splice(0))
}

type Watched = { readonly moved: string[] }
type Shift = PerformanceEntry & {
  readonly hadRecentInput: boolean
  /** Null: of what the style draws. */
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
