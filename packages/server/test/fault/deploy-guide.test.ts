// docs/guides/deploy.md as a reader types it, against a pod like those of `fleetline dev`. Its grace periods fit the defaults.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { longestStopMs } from '../../src/admin/draining.ts'
import { MOVE_MS } from '../../src/door/moving.ts'
import { SETTINGS } from '../../src/settings.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { stateOf } from '../support/fleet.ts'
import { eventually } from '../support/eventually.ts'
import { typePage } from '../support/guide.ts'
import { podOn } from '../support/pod.ts'
import { startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

const PAGE = readFileSync(join(import.meta.dirname, '../../../../docs/guides/deploy.md'), 'utf8')

test('the grace periods of the guide are 5 s longer than a stop with the defaults', () => {
  const msOf = (name: 'drainMs' | 'stopMs' | 'unreadyMs') => Number(SETTINGS[name].fallback)
  const limits = { drainMs: msOf('drainMs'), unreadyMs: msOf('unreadyMs'), stopMs: msOf('stopMs') }
  const seconds = longestStopMs(limits) / 1_000
  assert.ok(PAGE.includes(`${seconds} s with\nthe defaults`))
  for (const line of ['terminationGracePeriodSeconds: ', 'TimeoutStopSec='])
    assert.ok(PAGE.includes(`${line}${seconds + 5}\n`), line)
  for (const name of ['drainMs', 'stopMs', 'unreadyMs'] as const)
    assert.ok(PAGE.includes(`\`${name}\` (${msOf(name) / 1_000} s)`), name)
  assert.ok(PAGE.includes(`\`unreadyMs\` + ${MOVE_MS / 1_000} s`))
})

test('the guide to deploys does what it says', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const settings = { FLEETLINE_POD_NAME: 'pod-1', FLEETLINE_DRAIN_MS: '15000' } // as `fleetline dev` does
  const { admin, program } = await startPod(t, url, settings)
  await podOn(t, url)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const env = { FLEETLINE_OPERATOR_URL: admin }
  await typePage(PAGE, { folder, env, database, details: program.output })
  await eventually(async () => assert.equal(await stateOf(database, 1), 'live'), { what: 'it to work again' })
})
