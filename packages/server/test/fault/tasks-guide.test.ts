// docs/guides/tasks.md as a reader types it, against a pod that runs the example.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { admin, databaseFor } from '../support/database.ts'
import { blocksIn, typePage } from '../support/guide.ts'
import { startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/tasks.md'), 'utf8')
const APP = join(ROOT, 'examples/queue/app.ts')

test('the guide to tasks shows the example as it is', () => {
  const [shown] = blocksIn(PAGE, 'An app')
  assert.equal(shown!.text, readFileSync(APP, 'utf8'))
})

test('the guide to tasks does what it says', async (t) => {
  const role = `billing_${process.pid}` // a name that no earlier run has left behind
  await admin(`create role ${role}`)
  atEnd(t, () => admin(`drop role ${role}`))
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const { gateway, program } = await startPod(t, url, {}, APP)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const env = { FLEETLINE_URL: gateway, DATABASE_URL: url, TMPDIR: folder }
  await typePage(PAGE.replaceAll(`'billing'`, `'${role}'`), {
    folder,
    env,
    database,
    details: program.output,
  })
})
