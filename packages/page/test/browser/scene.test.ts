// A visitor's first two minutes: an empty directory, the page, a reply that streams to two devices, and a kill of its pod. The test
// keeps pictures and a clip in the folder that PICTURES names.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { startFleet } from '../../../server/test/support/clone.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { INSTALLED_DEV, installedFor } from '../../../server/test/support/installed.ts'
import { movedOn, NARROW, openChromium, openPage } from '../support/chromium.ts'
import { onDevice, type OnDevice } from '../support/device.ts'
import { film } from '../support/film.ts'

const PICTURES = process.env['PICTURES'] ?? mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))
const RESUMED = '.trail:has(.lost) .now:text("resumed on pod-")'
const HALF = 'claimed by a pod under a fence'

const picture = (name: string) => join(PICTURES, name)

type Scene = {
  readonly page: Page
  readonly api: string
  readonly laptop: OnDevice
  readonly phone: OnDevice
}

/** The reply comes word by word, not at once: both devices show at least this many lengths of it. */
async function streams({ laptop, phone }: Scene, lengths: number): Promise<void> {
  const grows = async (device: OnDevice) => {
    const seen = new Set<number>()
    const check = async () => {
      seen.add((await device.read()).at(-1)!.length)
      assert.ok(seen.size >= lengths, `${seen.size} lengths`)
    }
    await eventually(check, { what: `a reply that grows, of which ${lengths} lengths are seen` })
  }
  await Promise.all([grows(laptop), grows(phone)])
}

async function isOnBoth(page: Page, selector: string): Promise<void> {
  const places = page.locator(selector)
  await eventually(async () => assert.equal(await places.count(), 2), { what: `${selector} on both devices` })
}

async function killTheWriter({ page }: Scene): Promise<void> {
  const pod = await page.locator('.pod:has(.run)').getAttribute('aria-label', { timeout: 30_000 })
  await page.getByLabel(`Kill ${pod}`).hover()
  await page.getByLabel(`Kill ${pod}`).click()
}

async function keepStills(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.screenshot({ path: picture(`${colorScheme}.png`), animations: 'disabled' })
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(NARROW)
  await page.screenshot({ path: picture('narrow.png'), animations: 'disabled' })
}

async function aReplyOutlivesItsPod(scene: Scene): Promise<void> {
  const { page, laptop, phone } = scene
  await laptop.press('think')
  const isHalfSaid = async () => assert.ok((await phone.read()).at(-1)!.includes(HALF))
  await eventually(isHalfSaid, { what: 'the reply to be half said' })
  await killTheWriter(scene)
  const fellBack: string[] = []
  const goesOn = async () => {
    for (const device of [laptop, phone]) {
      const text = (await device.read()).at(-1)!
      if (!text.includes(HALF)) fellBack.push(text)
    }
    assert.equal(await page.locator(RESUMED).count(), 2)
  }
  await eventually(goesOn, { what: 'the reply to go on, on both' })
  await streams(scene, 5)
  assert.deepEqual(fellBack, [], `shown text was taken back to: ${fellBack.join(' | ')}`)
}

/** Nothing moves, except for the words about a device's connection and numbers or words in bold. */
async function nothingJumpsAtFirst(chromium: Browser, port: string): Promise<void> {
  for (const viewport of [undefined, NARROW]) {
    const page = await openPage(chromium, port, viewport)
    await page.locator('.score .zero').first().waitFor()
    const moved = (await movedOn(page)).filter(
      (name) => !name.startsWith('div.live') && !name.startsWith('b.'),
    )
    assert.deepEqual(moved, [])
    await page.close()
  }
}

/** Nothing moves around a growing reply, or above it. */
async function nothingMoves(scene: Scene): Promise<void> {
  const { page, laptop } = scene
  const boxes = () =>
    page
      .locator('.top, .score, .chaos, .pod, .device, .device > header, .log, .compose, .box')
      .evaluateAll((all) =>
        all.map((one) => [one.className, one.getBoundingClientRect().toJSON() as unknown]),
      )
  await laptop.press('long')
  await streams(scene, 3)
  const before = await boxes()
  await movedOn(page)
  await streams(scene, 30)
  assert.deepEqual(await boxes(), before)
  const moved = (await movedOn(page)).filter((name) => name !== 'div.trail') // below the growing text
  assert.deepEqual(moved, [])
}

async function itStops(scene: Scene): Promise<void> {
  await scene.page.getByLabel("Message from Ada's phone").press('Escape')
  await isOnBoth(scene.page, '.trail .stopped')
}

async function aToolIsShown(scene: Scene): Promise<void> {
  const { page, api } = scene
  const tool = { type: 'tool-weather', toolCallId: 'call_1', state: 'output-available' }
  const parts = [{ ...tool, input: { city: 'Rome' }, output: { sky: 'clear' } }]
  const message = { id: `msg-${randomUUID()}`, role: 'assistant', parts }
  const answer = await fetch(`http://localhost:${api}/v1/sessions/demo/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ message }),
  })
  assert.equal(answer.status, 200, await answer.text())
  await isOnBoth(page, '.tool.output-available')
  await page.locator('.tool summary').first().click()
  assert.match(
    await page.locator('.tool').first().innerText(),
    /^weather answered\s+input[^]*Rome[^]*output[^]*clear/,
  )
}

/** The text that came word by word from two pods equals the stored text: a reloaded page shows the same. */
async function showsTheLog({ page, laptop, phone }: Scene): Promise<void> {
  const pieced = await laptop.read()
  await page.reload()
  for (const device of [laptop, phone]) {
    const check = async () => assert.deepEqual(await device.read(), pieced)
    await eventually(check, { what: 'what is stored, on both' })
  }
}

test('on the page of a new fleet a reply on two devices outlives its pod', async (t) => {
  mkdirSync(PICTURES, { recursive: true })
  const home = installedFor(t)
  const startMs = performance.now()
  const figure = (name: string, fromMs: number) =>
    t.diagnostic(`figure ${name} ${(performance.now() - fromMs) / 1000}`)
  const fleet = await startFleet(t, INSTALLED_DEV, home)
  const chromium = await openChromium(t)
  const page = await openPage(chromium, fleet.page)
  figure('page_s', startMs)
  await nothingJumpsAtFirst(chromium, fleet.page)
  const [laptop, phone] = [onDevice(page, 'laptop'), onDevice(page, 'phone')]
  const scene = { page, api: fleet.api, laptop, phone }

  const beside = await openPage(chromium, fleet.page) // a second page for pictures, while the first is filmed
  const keepClip = await film(t, page)
  await laptop.say('good morning')
  const saidMs = performance.now()
  const said = ['good morning', 'You said: good morning']
  const isSaid = async () => assert.deepEqual(await phone.read(), said)
  await eventually(isSaid, { what: 'the reply on the other device' })
  figure('reply_s', saidMs)
  await aReplyOutlivesItsPod(scene)
  await isOnBoth(beside, RESUMED)
  await keepStills(beside)
  await beside.close()
  await isOnBoth(page, '.seq:text("seq 4")')
  await keepClip(picture('clip.webp'))
  await nothingMoves(scene)
  await itStops(scene)
  await aToolIsShown(scene)
  await showsTheLog(scene)
  assert.equal(await fleet.stop(), 0, fleet.output())
})
