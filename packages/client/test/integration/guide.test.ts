// Runs docs/guides/client.md and inbox.md against a pod, as a reader would. The guide to assistant-ui quotes its example, which the browser
// tests run.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { databaseFor } from '../../../server/test/support/database.ts'
import { blocksIn, isCode, plain } from '../../../server/test/support/guide.ts'
import { makeSession } from '../../../server/test/support/http.ts'
import { podOn } from '../../../server/test/support/pod.ts'
import { withoutSettings } from '../../../server/test/support/program.ts'

const ROOT = join(import.meta.dirname, '../../../..')

test('the program in the guide to the client prints what the guide says', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t), { demoAgent: 'yes' })
  await makeSession(gateway, { alias: 'demo', agent: 'demo' })
  const page = readFileSync(join(ROOT, 'docs/guides/client.md'), 'utf8')
  const [program, printed] = blocksIn(page, 'From a program').map(({ text }) => text)
  const words = ['--conditions=fleetline-source', '--input-type=module', '-e']
  const here = program!.replace('http://localhost:4400', gateway)
  const { stdout } = await promisify(execFile)(process.execPath, [...words, here], { cwd: ROOT })
  assert.equal(stdout, printed)
})

test('the guide to the inbox does what it says', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  const page = readFileSync(join(ROOT, 'docs/guides/inbox.md'), 'utf8')
  const env = {
    ...withoutSettings(process.env),
    NODE_OPTIONS: '--conditions=fleetline-source',
    FLEETLINE_URL: gateway,
  }
  const blocks = blocksIn(page).map((block) => ({
    ...block,
    text: block.text.replaceAll('localhost:4400', new URL(gateway).host),
  }))
  const run = async (file: string, args: string[]) =>
    (await promisify(execFile)(file, args, { cwd: ROOT, env })).stdout
  const type = ({ language, text }: (typeof blocks)[number]) =>
    language === 'js'
      ? run(process.execPath, ['--input-type=module', '-e', text])
      : run('sh', ['-ec', `${blocks[0]!.text}${text}`])
  for (const [index, block] of blocks.entries()) {
    if (!isCode(block)) continue
    const [printed, shown] = [await type(block), blocks[index + 1]]
    if (shown?.language === 'text') assert.equal(plain(printed), plain(shown.text))
  }
})

test('the guide to assistant-ui quotes the example', () => {
  const sources = globSync('examples/assistant-ui/src/*.tsx', { cwd: ROOT }).map((path) =>
    readFileSync(join(ROOT, path), 'utf8'),
  )
  const page = readFileSync(join(ROOT, 'docs/guides/assistant-ui.md'), 'utf8')
  for (const { text } of blocksIn(page))
    assert.ok(
      sources.some((source) => source.includes(text.trim())),
      text,
    )
})
