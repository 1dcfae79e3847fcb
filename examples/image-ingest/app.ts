// Copies images from a server into a folder that all pods see. A pod may be killed at any point: a file with its final name is
// complete, and a file that is still being written has a temporary name.
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGunzip } from 'node:zlib'
import { abort, hold, machine } from 'fleetline'
import { z } from 'zod'

const { IMAGES_FROM = 'http://localhost:8080', IMAGES_TO = 'images', UNPACK_MB_PER_SECOND } = process.env
const MS_A_BYTE = UNPACK_MB_PER_SECOND ? 1 / (Number(UNPACK_MB_PER_SECOND) * 1_000) : 0

const Image = z.object({
  name: z.string().regex(/^[a-z0-9-]{1,64}$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
})

export const ingest = machine('image.ingest', { input: Image, output: z.object({ path: z.string() }) })
  .check('exists', async (c) => {
    const path = imageOf(c.input.sha256)
    const active = await readlink(linkOf(c.input.name)).catch(() => undefined)
    return active === path ? c.handoff({ path }) : undefined
  })
  .to(
    'download',
    async (c) => {
      const file = resolve(IMAGES_TO, 'downloads', `${c.id}.gz`)
      const answer = await fetch(`${IMAGES_FROM}/${c.input.name}.gz`, { signal: c.signal })
      if (!answer.ok) await answer.body?.cancel()
      if (answer.status === 404) abort(`There is no image ${c.input.name}`)
      if (!answer.ok) throw new Error(`The server answered with ${answer.status}`)
      // Node.js empties a body that nobody reads yet if its response is garbage. So the function keeps the response.
      await whole(c.id, file, (part) => pipeline(answer.body!, fileOf(part), { signal: c.signal }))
      return { file }
    },
    { timeout: '10m', attempts: 8, concurrency: 4 },
  )
  .to(
    'unpack',
    async (c) => {
      const path = imageOf(c.input.sha256)
      const hash = createHash('sha256')
      await whole(c.id, path, async (part) => {
        const packed = createReadStream(c.out.download.file)
        await pipeline(packed, createGunzip(), paced(hash, c.signal), fileOf(part), { signal: c.signal })
        if (hash.digest('hex') !== c.input.sha256) hold(`${c.input.name} has another SHA-256`)
      })
      return { path }
    },
    { timeout: '30m', concurrency: 1 },
  )
  .to('activate', async (c) => {
    await whole(c.id, linkOf(c.input.name), (part) => symlink(c.out.unpack.path, part))
    await rm(c.out.download.file, { force: true })
  })
  .end((c) => ({ path: c.out.unpack.path }))

function imageOf(sha256: string): string {
  return resolve(IMAGES_TO, `${sha256}.img`)
}

function linkOf(name: string): string {
  return resolve(IMAGES_TO, 'active', name)
}

/** The data is on the disk when the file is closed. */
function fileOf(path: string) {
  return createWriteStream(path, { flush: true })
}

/** Every attempt writes to its own temporary file, because an earlier attempt may still be running. It deletes the temporary
 *  files of earlier attempts. If an earlier attempt deletes ours, our rename fails and the step is retried. */
async function whole(task: string, path: string, write: (part: string) => Promise<void>): Promise<void> {
  const [folder, ours] = [dirname(path), `${basename(path)}.${task}.`]
  await mkdir(folder, { recursive: true })
  const left = (await readdir(folder)).filter((name) => name.startsWith(ours))
  for (const name of left) await rm(join(folder, name), { force: true })
  const part = join(folder, `${ours}${randomUUID()}.part`)
  try {
    await write(part)
    await rename(part, path)
    await onDisk(folder)
  } finally {
    await rm(part, { force: true })
  }
}

/** Writes the file's name to the disk, too. A recorded step does not run again, so it could not replace a lost file. */
async function onDisk(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}

/** Adds every chunk to the hash, and waits after each one if a speed is set. */
function paced(hash: ReturnType<typeof createHash>, signal: AbortSignal) {
  return async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      hash.update(chunk)
      yield chunk
      if (MS_A_BYTE) await sleep(chunk.length * MS_A_BYTE, undefined, { signal })
    }
  }
}
