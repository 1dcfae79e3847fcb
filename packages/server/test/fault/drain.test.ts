// Q1 Q6: pods are asked to stop, one after the other, in the middle of their work.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { APP, startPod } from '../support/pods.ts'
import { queueOn } from '../support/tasks.ts'

const [FULL, ALL] = [{ FLEETLINE_SLOTS: '10', FLEETLINE_DRAIN_MS: '0' }, 120]

test('rolling SIGTERM under load loses no task and uses up no attempt', async (t) => {
  const { url, enqueue, tasks, history } = await queueOn(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-drain-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const until = join(folder, 'open')
  await enqueue(20, { input: { until } })
  await enqueue(ALL - 20, { priority: 1 })
  const claimed = async () => (await tasks()).filter(({ state }) => state === 'claimed').length
  const untilClaimed = (count: number, details: () => string) =>
    eventually(async () => assert.equal(await claimed(), count), { what: `${count} claims`, details })

  let { program } = await startPod(t, url, FULL, APP)
  await untilClaimed(10, program.output)
  for (const _ of ['first', 'second']) {
    const next = await startPod(t, url, FULL, APP)
    await untilClaimed(20, next.program.output)
    program.kill('SIGTERM')
    await eventually(() => assert.ok(program.hasEnded()), { what: 'it to end', details: program.output })
    assert.deepEqual(await program.ended, { code: 0, signal: null }, program.output())
    const rows = await tasks()
    assert.equal(await claimed(), 10, 'what it ran is back in the queue, and the other pod is full')
    assert.deepEqual(
      new Set(rows.map(({ state, spent }) => `${state} ${spent}`)),
      new Set(['claimed 1', 'ready 0']),
    )
    program = next.program
  }
  writeFileSync(until, '')
  await eventually(async () => assert.equal((await history()).length, ALL), {
    what: 'all to end',
    details: program.output,
  })
  const ends = await history()
  assert.deepEqual(new Set(ends.map(({ outcome, spent }) => `${outcome} ${spent}`)), new Set(['done 1']))
  assert.equal(new Set(ends.map(({ id }) => id)).size, ALL)
  assert.deepEqual(await tasks(), [])
})
