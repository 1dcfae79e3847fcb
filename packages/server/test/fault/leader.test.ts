// P1 P2 P7: the leader is paused, counted as dead and woken again. Then the next leader is asked to stop.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { leaderOf, podRows, stateOf, bury } from '../support/fleet.ts'
import { startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

test('a leader that slept wakes as another pod and leads no more; one that is stopped leaves at once', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const sleeper = await startPod(t, url, { FLEETLINE_POD_NAME: 'sleeper' })
  const details = () => sleeper.program.output()
  const old = await eventually(
    async () => {
      const leader = await leaderOf(database)
      assert.ok(leader !== undefined)
      return leader
    },
    { what: 'the first pod to lead', details },
  )
  const heir = await startPod(t, url, { FLEETLINE_POD_NAME: 'heir' })
  const heirId = (await podRows(database)).find(({ name }) => name === 'heir')!.pod
  sleeper.program.kill('SIGSTOP')
  await bury(database, old)
  await eventually(async () => assert.equal(await leaderOf(database), heirId), {
    what: 'the heir to lead',
    details: heir.program.output,
  })
  sleeper.program.kill('SIGCONT')
  const isBack = { what: 'the sleeper to be back under a new id', details }
  await eventually(async () => {
    const rows = (await podRows(database)).filter(({ name }) => name === 'sleeper')
    assert.deepEqual(
      rows.map(({ pod, state }) => ({ isNew: pod > old, state })),
      [
        { isNew: true, state: 'live' },
        { isNew: false, state: 'dead' },
      ],
    )
  }, isBack)
  assert.equal(await leaderOf(database), heirId)
  assert.equal((await fetch(`${sleeper.admin}/readyz`)).status, 200)

  heir.program.kill('SIGTERM')
  await eventually(() => assert.ok(heir.program.hasEnded()), {
    what: 'the heir to end',
    details: heir.program.output,
  })
  assert.deepEqual(await heir.program.ended, { code: 0, signal: null })
  assert.equal(await stateOf(database, heirId), 'dead', 'it did not write that it is dead')
  await eventually(async () => assert.ok((await leaderOf(database))! > heirId), {
    what: 'a new leader',
    details,
  })
})
