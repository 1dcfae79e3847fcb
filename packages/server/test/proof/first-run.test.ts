// A stranger's first minute. It needs a network, so the gate does not run it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startFleet } from '../support/clone.ts'
import { INSTALLED_DEV, installedFor } from '../support/installed.ts'

test('npx fleetline dev is ready after an install in an empty directory', async (t) => {
  const home = installedFor(t)
  const startMs = performance.now()
  const fleet = await startFleet(t, INSTALLED_DEV, home)
  t.diagnostic(`figure ready_s ${(performance.now() - startMs) / 1000}`)

  assert.equal((await fetch(`http://localhost:${fleet.operator}/readyz`)).status, 200)
  assert.equal(await fleet.stop(), 0, fleet.output())
  assert.match(fleet.output(), /fleet +stopped/)
})
