// docs/guides/tasks.md as a reader types it, against a pod that runs the example: each block is run, in the order of the
// page. One behind which its output stands is typed again until it prints that: a moment later, as the page says.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { blocksIn, isCode, plain, type Block } from '../support/guide.ts'
import { startPod } from '../support/pods.ts'
import { withoutSettings } from '../support/program.ts'
import { openDatabase } from '../support/store.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/tasks.md'), 'utf8')
const APP = join(ROOT, 'examples/queue/app.ts')

test('the guide to tasks shows the example as it is', () => {
  const [shown] = blocksIn(PAGE, 'An app')
  assert.equal(shown!.text, readFileSync(APP, 'utf8'))
})

test('the guide to tasks does what it says', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const { gateway, program } = await startPod(t, url, {}, APP)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const env = {
    ...withoutSettings(process.env),
    FLEETLINE_URL: gateway,
    DATABASE_URL: url,
    NODE_OPTIONS: '--conditions=fleetline-source',
    TMPDIR: folder,
  }
  const run = async (file: string, args: string[]) =>
    (await promisify(execFile)(file, args, { cwd: ROOT, env })).stdout
  const kept = join(folder, 'variables') // one terminal, but a shell per block
  writeFileSync(kept, '')

  const blocks = blocksIn(PAGE)
  const command = blocks.find(({ text }) => text.startsWith('fleetline() {'))!
  const type = async ({ language, text }: Block): Promise<string> => {
    if (language === 'js') return run(process.execPath, ['--input-type=module', '-e', text])
    if (language === 'sh') return run('sh', ['-c', `. ${kept}\n${command.text}${text}\nexport -p > ${kept}`])
    const outcome = await database.transaction((query) => query<object>(text))
    assert.ok(outcome.type === 'committed')
    return Object.values(outcome.value[0]!).join(' ')
  }
  for (const [index, block] of blocks.entries()) {
    const shown = blocks[index + 1]
    if (!isCode(block)) continue
    if (!shown || shown.language !== 'text') await type(block)
    else
      await eventually(async () => assert.equal(plain(await type(block)), plain(shown.text)), {
        what: `the output of ${block.text}`,
        details: program.output,
      })
  }
})
