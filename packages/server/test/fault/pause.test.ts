// A paused pod cannot see what happens around it. The process that paused it wakes it, and so does the end of that process.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { runProgram } from '../support/program.ts'

const PAUSER = join(import.meta.dirname, '../support/pauser.ts')

async function pausedPod(t: TestContext) {
  const pauser = runProgram(t, PAUSER, { args: [await databaseFor(t)] })
  const details = { details: pauser.output }
  const pidIn = () => Number(/paused (\d+)/.exec(pauser.printed())![1])
  const pid = await eventually(pidIn, { what: 'the pause', ...details })
  atEnd(t, () => existsSync(`/proc/${pid}`) && process.kill(pid, 'SIGKILL'))
  const isStopped = () => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T ')
  await eventually(() => assert.ok(isStopped()), { what: 'the pod to stand still', ...details })
  return { pauser, pid, isStopped }
}

test('a paused pod is woken, and runs on', async (t) => {
  const { pauser, isStopped } = await pausedPod(t)
  pauser.kill('SIGUSR2')
  await eventually(() => assert.match(pauser.printed(), /woken/), { what: 'it to be woken' })
  assert.ok(!isStopped())
})

test('a paused pod wakes and ends when the process that paused it is killed', async (t) => {
  const { pauser, pid } = await pausedPod(t)
  pauser.kill('SIGKILL')
  await eventually(() => assert.ok(!existsSync(`/proc/${pid}`)), { what: 'the pod to end' })
})
