// Pods that are killed while their agent has reported a part of what it used. Beats are made old by hand, so no test waits for a ttl.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Ack, Turn } from '@fleetline/protocol'
import { valueOf } from '../../src/store/database.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { bury, podRows } from '../support/fleet.ts'
import { call, makeSession } from '../support/http.ts'
import { APP, startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

test('E9: what an attempt had reported when its pod was killed is kept: by the next attempt, and by a stop', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async (text: string) => valueOf(await database.transaction((query) => query(text)), 'not run')
  const folder = mkdtempSync(join(tmpdir(), 'usage-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const podNamed = async (name: string) => {
    const pod = await startPod(t, url, { FLEETLINE_POD_NAME: name }, APP)
    const { pod: id } = (await podRows(database)).find((row) => row.name === name)!
    return { ...pod, id }
  }
  const first = await podNamed('first')
  const { session } = await makeSession(first.gateway, { agent: 'spender' })
  const at = `/v1/sessions/${session}`
  const send = async (gateway: string, file: string) =>
    (await call('POST', `${gateway}${at}/messages`, { text: join(folder, file) })).body as unknown as Ack
  const view = async (gateway: string, turn: string) =>
    (await call('GET', `${gateway}/v1/turns/${turn}`)).body as unknown as Turn
  const usageOf = async (gateway: string, turn: string) =>
    (await view(gateway, turn)).usage!.map(({ attempt, outcome, inputTokens }) => [
      attempt,
      outcome,
      inputTokens,
    ])
  const words = (attempt: number) =>
    eventually(
      async () =>
        assert.ok((await run(`select 1 from fleetline.chunks where attempt = ${attempt}`)).length > 0),
      {
        what: `words of attempt ${attempt}`,
      },
    )

  const { turn } = await send(first.gateway, 'free')
  await words(1)
  first.program.kill('SIGKILL')
  const second = await podNamed('second')
  await bury(database, first.id)
  await words(2)
  writeFileSync(join(folder, 'free'), '')
  await eventually(async () => assert.equal((await view(second.gateway, turn!)).state, 'done'), {
    what: 'its reply',
  })
  assert.deepEqual(await usageOf(second.gateway, turn!), [
    [1, 'lost', 10],
    [2, 'done', 30],
  ])

  const next = await send(second.gateway, 'never')
  await words(1)
  second.program.kill('SIGKILL')
  const third = await podNamed('third')
  await call('POST', `${third.gateway}${at}/stop`, { turn: next.turn, epoch: next.epoch })
  assert.deepEqual(await usageOf(third.gateway, next.turn!), [[1, 'stopped', 10]])
})
