// A task that kills the pods that run it. Beats are made old by hand, so no test waits for a ttl.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { bury } from '../support/fleet.ts'
import { gated } from '../support/gated.ts'

test('Q6: a task that kills its pods is dead after its attempts, and the tasks beside it lose two attempts', async (t) => {
  const { database, run, enqueue, until, open, untilClaimed, podNamed, tasks, history } = await gated(t)
  const leader = await podNamed('leader', false)
  await enqueue(1, { input: { kills: true }, priority: 5, maxAttempts: 3 })
  await enqueue(5, { input: { until } })
  const hold = `update fleetline.tasks set state = 'waiting', run_at = now() + interval '1 hour' where state <> 'dead'`
  const release = (which: string) =>
    run((query) =>
      query(
        `update fleetline.tasks set run_at = now() - priority * interval '1 s' where state = 'waiting' and ${which}`,
      ),
    )
  for (let n = 1; n <= 3; n += 1) {
    await run((query) => query(hold))
    const { id, program, details } = await podNamed(`victim-${n}`)
    if (n < 3) {
      await release('priority < 5')
      await untilClaimed(5, details)
    }
    await release('true') // in round 3 all tasks are suspects, and the killer is claimed first
    await eventually(() => assert.ok(program.hasEnded()), { what: 'it to be killed', details })
    assert.deepEqual(await program.ended, { code: null, signal: 'SIGKILL' })
    await bury(database, id)
    await eventually(async () => assert.ok((await tasks()).every(({ state }) => state !== 'claimed')), {
      what: 'its claims to be returned',
      details: leader.details,
    })
  }
  const rows = await tasks()
  const dead = rows.filter(({ state }) => state === 'dead')
  assert.deepEqual(
    dead.map(({ input, spent, error }) => ({
      input,
      spent,
      code: error!.code,
      attempts: error!.attempts.length,
    })),
    [{ input: { kills: true }, spent: 3, code: 'pod_lost', attempts: 3 }],
  )
  assert.deepEqual(
    rows.filter(({ state }) => state !== 'dead').map(({ spent }) => spent),
    [2, 2, 2, 2, 2],
  )
  open()
  const { details } = await podNamed('survivor')
  await eventually(
    async () => {
      await release('true')
      assert.equal((await history()).length, 5)
    },
    { what: 'the others to end', details },
  )
})
