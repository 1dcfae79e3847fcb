// docs/guides/machines.md as a reader types it, and its example under `kill -9`.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { podRows, bury } from '../support/fleet.ts'
import { blocksIn, typePage } from '../support/guide.ts'
import { call } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { runProgram } from '../support/program.ts'
import { queueOn } from '../support/tasks.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/machines.md'), 'utf8')
const [APP, SOURCE] = ['app.ts', 'source.ts'].map((file) => join(ROOT, 'examples/image-ingest', file)) as [
  string,
  string,
]

test('the guide to machines shows the example as it is', () => {
  const [shown] = blocksIn(PAGE, 'A machine')
  assert.equal(shown!.text, readFileSync(APP, 'utf8'))
})

/** A server that offers an image, a folder, and pods that bring the image there. */
async function ingesting(t: TestContext) {
  const queue = await queueOn(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-images-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const source = runProgram(t, SOURCE, { env: { PORT: '0' } })
  const [, from, sha256] = await eventually(
    () => {
      const said = /on (\S+)\n.* ([0-9a-f]{64})\n/.exec(source.printed())
      assert.ok(said)
      return said
    },
    { what: 'the server', details: source.output },
  )
  const env = { IMAGES_FROM: from!, IMAGES_TO: folder }
  return {
    ...queue,
    folder,
    sha256: sha256!,
    downloads: () => source.printed().split('GET /cat.gz\n').length - 1,
    pod: (name: string, more = {}) =>
      startPod(t, queue.url, { ...env, FLEETLINE_POD_NAME: name, ...more }, APP),
  }
}

test('the guide to machines does what it says', async (t) => {
  const { url, database, folder, pod } = await ingesting(t)
  const { gateway, admin, program } = await pod('reader')
  const env = { FLEETLINE_URL: gateway, FLEETLINE_OPERATOR_URL: admin, DATABASE_URL: url, TMPDIR: folder }
  await typePage(PAGE, { folder, env, database, details: program.output })
})

test('Q13: after a kill during unpacking the download is not repeated, and the image is whole or absent', async (t) => {
  const { database, folder, sha256, downloads, pod, history } = await ingesting(t)
  const killed = await pod('killed', { UNPACK_MB_PER_SECOND: '0.0001' })
  const body = { machine: 'image.ingest', input: { name: 'cat', sha256 } }
  assert.equal((await call('POST', `${killed.gateway}/v1/tasks`, body)).status, 200)
  const image = join(folder, `${sha256}.img`)
  const parts = () => readdirSync(folder).filter((name) => name.endsWith('.part'))
  await eventually(() => assert.ok(parts().some((name) => statSync(join(folder, name)).size > 0)), {
    what: 'the first bytes of the image',
    details: killed.program.output,
  })
  killed.program.kill('SIGKILL')
  await killed.program.ended
  assert.equal(parts().length, 1)
  assert.ok(!readdirSync(folder).includes(`${sha256}.img`), readdirSync(folder).join())
  const other = await pod('other')
  const { pod: number } = (await podRows(database)).find(({ name }) => name === 'killed')!
  await bury(database, number)
  const ended = await eventually(
    async () => {
      const ends = await history()
      assert.equal(ends.length, 1)
      return ends[0]!
    },
    { what: 'the task to end', details: other.program.output },
  )
  assert.equal(ended.outcome, 'done')
  assert.equal(ended.attempt, 2)
  assert.deepEqual(ended.result, { path: image })
  assert.equal(createHash('sha256').update(readFileSync(image)).digest('hex'), sha256)
  assert.equal(readlinkSync(join(folder, 'active/cat')), image)
  assert.equal(downloads(), 1)
  assert.deepEqual(parts(), [])
  assert.deepEqual(readdirSync(join(folder, 'downloads')), [])
})
