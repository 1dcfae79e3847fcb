// Reads a page of docs/guides for a test: its code blocks, and their output without the parts that differ in each run.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Database } from '../../src/store/database.ts'
import { eventually } from './eventually.ts'
import { OF_CLUSTER } from './pod.ts'
import { withoutSettings } from './program.ts'

/** The text between two fences, and the language after the first fence. */
type Block = { readonly language: string; readonly text: string }

/** Returns the blocks of a section, or of the whole page. */
export function blocksIn(page: string, section?: string): Block[] {
  const text = section === undefined ? page : (page.split(`\n## ${section}\n`)[1] ?? '').split('\n## ')[0]!
  const found = text.matchAll(/```(\w+)\n([^]*?)```/g)
  return Array.from(found, ([, language, block]) => ({ language: language!, text: block! }))
}

export function isCode({ language }: Block): boolean {
  return ['sh', 'js', 'sql'].includes(language)
}

export function joined(blocks: readonly Block[]): string {
  return blocks.map(({ text }) => text).join('')
}

/** Makes output comparable with the page: ids and times differ in each run, and a terminal has wider columns than a pipe. */
export function plain(output: string): string {
  return output
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[a-z]{3}_[0-9a-f]{36}\b|[0-9a-f]{32}/g, 'ID')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+ ms\b/g, 'TIME')
    .replaceAll(/[\t ]+/g, ' ')
    .trim()
}

const ROOT = join(import.meta.dirname, '../../../..')

/** How pages call the program. The README's test types it like this; here it would cost as much as the program itself. */
const VIA_NPM = 'fleetline() { npm run -s fleetline -- "$@"; }\n'
const PROGRAM = [
  process.execPath,
  '--conditions=fleetline-source',
  join(ROOT, 'packages/server/bin/fleetline.js'),
]
const DIRECTLY = `fleetline() { npm_lifecycle_event=fleetline ${PROGRAM.map((word) => `'${word}'`).join(' ')} "$@"; }\n`

type Terminal = {
  /** Where it writes files. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  /** Where it runs SQL statements. */
  readonly database: Pick<Database, 'transaction'>
  readonly details: () => string
}

/** Runs the code blocks in the order of the page, as if typed into one terminal. If the page shows a block's output, the block
 *  runs again until it prints that output. The page says that this takes a moment. */
export async function typePage(
  page: string,
  { folder, env: own, database, details }: Terminal,
): Promise<void> {
  const ours = {
    NODE_OPTIONS: '--conditions=fleetline-source',
    FLEETLINE_ALLOW_INSECURE: OF_CLUSTER,
    FLEETLINE_UNREADY_MS: '0', // no balancer has to see that a pod of the page stops
  }
  const env = { ...withoutSettings(process.env), ...ours, ...own }
  const run = async (file: string, args: string[]) =>
    (await promisify(execFile)(file, args, { cwd: ROOT, env })).stdout
  const kept = join(folder, 'variables') // the page has one terminal, but each block runs in a new shell
  writeFileSync(kept, '')
  const blocks = blocksIn(page)
  assert.ok(blocks.some(({ text }) => text === VIA_NPM))
  const type = async ({ language, text }: Block): Promise<string> => {
    if (language === 'js') return run(process.execPath, ['--input-type=module', '-e', text])
    if (language === 'sh') return run('sh', ['-ec', `. ${kept}\n${DIRECTLY}${text}\nexport -p > ${kept}`])
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
        details,
      })
  }
}
