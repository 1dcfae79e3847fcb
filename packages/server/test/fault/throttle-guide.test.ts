// docs/guides/throttle.md as a reader types it, against a pod that runs the example and a provider that takes six calls.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { DOWNSTREAMS } from '../../src/cli/downstreams.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { blocksIn, typePage } from '../support/guide.ts'
import { startPod } from '../support/pods.ts'
import { runProgram } from '../support/program.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/throttle.md'), 'utf8')
const [APP, SOURCE] = ['app.ts', 'provider.ts'].map((file) =>
  join(ROOT, 'examples/limited-provider', file),
) as [string, string]

type Books = { readonly answered: number; readonly refused: number }

test('the guide to limits shows the example as it is', () => {
  const [shown] = blocksIn(PAGE, 'An app')
  assert.equal(shown!.text, readFileSync(APP, 'utf8'))
})

test('the guide to limits does what it says', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const provider = runProgram(t, SOURCE, { env: { PORT: '0' } })
  const at = await eventually(() => /on (\S+)\n/.exec(provider.printed())![1]!, {
    what: 'the provider',
    details: provider.output,
  })
  const { gateway, admin, program } = await startPod(t, url, { PROVIDER: at }, APP)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const env = { FLEETLINE_URL: gateway, DATABASE_URL: url, TMPDIR: folder, PROVIDER: at }
  await typePage(PAGE, { folder, env, database, details: program.output })

  const [, , standing, books] = blocksIn(PAGE, 'Run it').filter(({ language }) => language === 'console')
  const list = async () => {
    const listed = await typing(DOWNSTREAMS, 'downstreams')({ url: admin, json: true }, 'ls')
    return JSON.parse(listed.out) as { readonly capacity: number | null }
  }
  const columns = Object.keys(await list())
  assert.deepEqual(
    standing!.text.split('\n')[1]!.split(/ +/).toSorted(),
    columns.map((column) => column.toUpperCase()).toSorted(),
  )
  const read = async () => (await (await fetch(`${at}/books`)).json()) as Books
  const told = await read()
  assert.deepEqual(Object.keys(told), Object.keys(JSON.parse(books!.text.split('\n')[1]!) as object))
  assert.equal(told.answered, 61)

  const more = `select fleetline.enqueue('default', 'ask', 'null') from generate_series(1, 30)`
  await eventually(
    async () => {
      await database.transaction((query) => query(more))
      assert.ok((await read()).refused > 0)
      assert.notEqual((await list()).capacity, null)
    },
    { what: 'a capacity that was learnt', details: program.output },
  )
})
