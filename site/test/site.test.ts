// The built site as a reader meets it: on a wide and a narrow screen, light and dark. No page scrolls sideways, fails, or asks another
// host; every link has a target; the search finds the words of the glossary. `npm run site -- --test` builds it first.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { openChromium } from '../../packages/page/test/support/chromium.ts'
import { serveFolder } from './static-server.ts'

const DIST = join(import.meta.dirname, '../dist')
const PICTURES = process.env['PICTURES']
const PAGES = globSync('**/*.html', { cwd: DIST }).filter((path) => path !== '404.html')
const SAMPLE = [
  'index.html',
  'overview.html',
  'how-it-works.html',
  'glossary.html',
  'guides/dev.html',
  'guides/secure.html',
  'reference/config.html',
  'compare/temporal.html',
  'decisions/0020-throttle.html',
  'bench/results.html',
]
const WIDE = { width: 1280, height: 800 }
const NARROW = { width: 390, height: 844 }
const TERMS = [
  'turn',
  'epoch',
  'fence',
  'track',
  'shape',
  'permit',
  'follower',
  'seq',
  'machine',
  'compaction',
]

type Look = { readonly viewport: typeof WIDE; readonly colorScheme: 'light' | 'dark' }

/** A page of a browser, and what went wrong in it so far. */
async function openSite(t: TestContext, look: Look) {
  const base = await serveFolder(t, DIST)
  const browser = await openChromium(t)
  const page = await (await browser.newContext(look)).newPage()
  const faults: string[] = []
  const add = (fault: string) => faults.push(`${page.url().slice(base.length)}: ${fault}`)
  page.on('console', (line) => line.type() === 'error' && add(line.text()))
  page.on('pageerror', (error) => add(error.message))
  page.on('response', (response) => response.status() >= 400 && add(`${response.status()} ${response.url()}`))
  page.on('request', (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith('data:')) add(`asks ${request.url()}`)
  })
  return { base, page, faults }
}

const widthsOf = (page: Page) =>
  page.evaluate<readonly [number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  )

const LOOKS: Readonly<Record<string, Look>> = {
  'narrow-dark': { viewport: NARROW, colorScheme: 'dark' },
  'wide-light': { viewport: WIDE, colorScheme: 'light' },
  'narrow-light': { viewport: NARROW, colorScheme: 'light' },
  'wide-dark': { viewport: WIDE, colorScheme: 'dark' },
}

for (const [name, look] of Object.entries(LOOKS))
  test(`${name}: no page scrolls sideways, fails or asks another host`, async (t) => {
    const { base, page, faults } = await openSite(t, look)
    for (const path of name === 'narrow-dark' ? PAGES : SAMPLE) {
      await page.goto(`${base}/${path}`)
      if (SAMPLE.includes(path)) await takePicture(page, `${path.replaceAll('/', '-')}-${name}`)
      for (const viewport of [WIDE, NARROW]) {
        await page.setViewportSize(viewport)
        const [scrolled, shown] = await widthsOf(page)
        if (scrolled > shown) faults.push(`${path}: ${scrolled} px of ${viewport.width}`)
      }
      await page.setViewportSize(look.viewport)
    }
    assert.deepEqual(faults, [])
  })

async function takePicture(page: Page, name: string): Promise<void> {
  await page.waitForLoadState('networkidle')
  if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name.replace('.html', '')}.png`) })
}

test('every link between pages leads to a page and, if it names one, to a heading of it', () => {
  const pages = new Map(
    globSync('**/*.html', { cwd: DIST }).map(
      (path) => [path, readFileSync(join(DIST, path), 'utf8')] as const,
    ),
  )
  const ids = new Map(
    [...pages].map(([path, html]) => [
      path,
      new Set(Array.from(html.matchAll(/ id="([^"]+)"/g), ([, id]) => id)),
    ]),
  )
  const dead = [...pages].flatMap(([path, html]) =>
    Array.from(html.matchAll(/<a [^>]*href="([^":]+)"/g), ([, link]) => link!).filter((link) => {
      const [target, anchor] = decodeURI(link).split('#') as [string, string?]
      const there =
        target === '' ? path : posix.join(target.startsWith('/') ? '' : posix.dirname(path), target)
      const found = ids.get(there.replace(/^\//, '').replace(/(^|\/)$/, '$1index.html'))
      return !found || (anchor && !found.has(anchor))
    }),
  )
  assert.ok(pages.size > 50, 'the pages were found')
  assert.deepEqual(dead, [])
})

test('the search finds the words of the glossary', async (t) => {
  const { base, page, faults } = await openSite(t, { viewport: WIDE, colorScheme: 'light' })
  await page.goto(`${base}/`)
  await page.locator('#local-search button').click()
  for (const term of TERMS) {
    await page.locator('#localsearch-input').fill(term)
    const first = page.locator('.VPLocalSearchBox a.result').first()
    await page
      .locator('.VPLocalSearchBox .result mark', { hasText: new RegExp(term, 'i') })
      .first()
      .waitFor()
    const { pathname } = new URL((await first.getAttribute('href'))!, base)
    const text = readFileSync(join(DIST, pathname.replace(/\/$/, '/index.html')), 'utf8').replaceAll(
      /<[^>]+>/g,
      '',
    )
    assert.ok(text.toLowerCase().includes(term), `${term}: ${pathname}`)
    if (term === 'fence') await takePicture(page, 'search')
  }
  await page.locator('.VPLocalSearchBox a.result').first().click()
  await page.locator('.VPLocalSearchBox').waitFor({ state: 'detached' })
  assert.match(await page.locator('.vp-doc').innerText(), /compaction/i)
  assert.deepEqual(faults, [])
})
