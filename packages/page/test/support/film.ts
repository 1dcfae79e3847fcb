// Records a page as an animated picture that any README can show. ffmpeg makes it (Debian: apt-get install ffmpeg).
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { atEnd } from '../../../server/test/support/cleanup.ts'

type Frame = { readonly path: string; readonly atS: number }

const FRAMES_PER_S = 10
const WIDTH = 1120

/** Starts to record. The returned function ends the recording and writes it to a file. The film plays in real time. */
export async function film(t: TestContext, page: Page): Promise<(path: string) => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-film-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  const frames: Frame[] = []
  const chromium = await page.context().newCDPSession(page)
  chromium.on('Page.screencastFrame', ({ data, metadata, sessionId }) => {
    const path = join(folder, `${frames.length}.png`)
    writeFileSync(path, Buffer.from(data, 'base64'))
    frames.push({ path, atS: metadata.timestamp! })
    void chromium.send('Page.screencastFrameAck', { sessionId }).catch(() => undefined) // fails if the page is closed
  })
  await page.evaluate(showPointer)
  await chromium.send('Page.startScreencast', { format: 'png' })
  return async (path) => {
    await chromium.send('Page.stopScreencast')
    await page.locator('#pointer').evaluate((pointer) => pointer.remove())
    const list = join(folder, 'list')
    writeFileSync(list, listOf(frames))
    execFileSync('ffmpeg', ffmpegArgs(list, path), { stdio: 'pipe' })
  }
}

/** Chromium sends a frame when something changes, and the film shows it until the next one. Frames are sorted by time, because
 *  Chromium may send two in the wrong order, and ffmpeg accepts no duration below zero. */
function listOf(inAnyOrder: readonly Frame[]): string {
  const frames = inAnyOrder.toSorted((a, b) => a.atS - b.atS)
  const lines = frames.map(({ path, atS }, index) => {
    const shownS = (frames[index + 1]?.atS ?? atS + 1) - atS
    return `file '${path}'\nduration ${shownS.toFixed(4)}`
  })
  return `ffconcat version 1.0\n${lines.join('\n')}\nfile '${frames.at(-1)!.path}'\n`
}

function ffmpegArgs(list: string, path: string): string[] {
  const filter = `fps=${FRAMES_PER_S},scale=${WIDTH}:-1:flags=lanczos`
  const input = ['-loglevel', 'error', '-y', '-safe', '0', '-i', list, '-vf', filter]
  return [...input, '-c:v', 'libwebp_anim', '-loop', '0', '-quality', '70', '-compression_level', '4', path]
}

/** Draws a mouse pointer, because a browser without a screen draws none. */
function showPointer(): void {
  const pointer = document.createElement('div')
  pointer.id = 'pointer'
  Object.assign(pointer.style, {
    position: 'fixed',
    width: '18px',
    height: '18px',
    margin: '-9px',
    borderRadius: '50%',
    background: '#e0457b99',
    pointerEvents: 'none',
    transition: 'left 0.3s, top 0.3s',
  })
  addEventListener('mousemove', ({ clientX, clientY }) =>
    Object.assign(pointer.style, { left: `${clientX}px`, top: `${clientY}px` }),
  )
  document.body.append(pointer)
}
