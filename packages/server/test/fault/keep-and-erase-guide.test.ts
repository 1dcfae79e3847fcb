// Runs the guide to keeping and erasing as if typed, against a pod.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { typePage } from '../support/guide.ts'
import { startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

const PAGE = readFileSync(join(import.meta.dirname, '../../../../docs/guides/keep-and-erase.md'), 'utf8')

test('the guide to keeping and erasing does what it says', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const { gateway, program } = await startPod(t, url)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const env = { FLEETLINE_URL: gateway, DATABASE_URL: url }
  const page = PAGE.replaceAll('localhost:4400', gateway.replace('http://', ''))
  await typePage(page, { folder, env, database, details: program.output })
})
