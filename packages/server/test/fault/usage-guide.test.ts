// docs/guides/usage.md as a reader types it, against a pod that runs the example.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { blocksIn, typePage } from '../support/guide.ts'
import { startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/usage.md'), 'utf8')
const APP = join(ROOT, 'examples/usage/app.ts')

test('the guide to usage shows the example as it is, and does what it says', async (t) => {
  const [shown] = blocksIn(PAGE, 'An agent that reports')
  assert.equal(shown!.text, readFileSync(APP, 'utf8'))
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const { gateway, program } = await startPod(t, url, {}, APP)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const env = { FLEETLINE_URL: gateway, DATABASE_URL: url }
  await typePage(PAGE, { folder, env, database, details: program.output })
})
