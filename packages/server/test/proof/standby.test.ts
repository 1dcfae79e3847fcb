// P5, L1, L7 under load: the address leads to a standby for a few seconds, as in a switchover, and then back to the primary. The
// time from there to the first acknowledged write is a figure.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { migrateUp } from '../../src/store/migrate.ts'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { podOn } from '../support/pod.ts'
import { proofSize } from '../support/proof-size.ts'
import { proxyFor } from '../support/proxy.ts'
import { startQuorum } from '../support/quorum.ts'

const ROUNDS = proofSize({ full: 5, quick: 2 })
const AWAY_MS = 3_000
const LOAD_MS = 2_000
const WRITERS = 4

test('P5 L1 L7: a pod that is led to a standby and back, under load, reads nothing stale and loses no acknowledged write', async (t) => {
  const quorum = await startQuorum()
  atEnd(t, () => quorum.stop())
  const standby = await quorum.addStandby('s1')
  await quorum.primary.admin('create database f')
  const direct = quorum.primary.urlOf('f')
  await migrateUp({ databaseUrl: direct })
  const proxy = await proxyFor(t, direct)
  const { gateway, admin } = await podOn(t, proxy.url, { transactionDeadlineMs: '5000' })
  const call = async (method: string, path: string, body?: object) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${gateway}${path}`, {
      method,
      headers,
      body: body ? JSON.stringify(body) : null,
    })
    return {
      status: answer.status,
      body: (await answer.json()) as { session: string; head: number; seq: number },
    }
  }
  const { session } = (await call('POST', '/v1/sessions', {})).body
  const messages = `/v1/sessions/${session}/messages`

  const acked = new Set<number>()
  const seen = { isOver: false, stale: 0, reads: 0, lastAckMs: 0 }
  const write = async () => {
    while (!seen.isOver) {
      const { status, body } = await call('POST', messages, { text: 'hello' })
      if (status !== 200) {
        await sleep(20)
        continue
      }
      acked.add(body.seq)
      seen.lastAckMs = performance.now()
    }
  }
  const read = async () => {
    while (!seen.isOver) {
      const least = Math.max(0, ...acked)
      const { status, body } = await call('GET', messages)
      if (status === 200) seen.reads += 1
      if (status === 200 && body.head < least) seen.stale += 1
      await sleep(5)
    }
  }
  const load = Promise.all([read(), ...Array.from({ length: WRITERS }, write)])
  const backMs: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    await eventually(() => assert.ok(performance.now() - seen.lastAckMs < 100), { what: 'writes to flow' })
    await sleep(LOAD_MS)
    await standby.admin('select pg_wal_replay_pause()')
    proxy.leadTo(standby.urlOf('f'))
    await sleep(AWAY_MS)
    assert.equal((await fetch(`${admin}/readyz`)).status, 503)
    const backAtMs = performance.now()
    proxy.leadTo(direct)
    await eventually(() => assert.ok(seen.lastAckMs > backAtMs), { what: 'a write to be acknowledged' })
    backMs.push(Math.round(seen.lastAckMs - backAtMs))
    await standby.admin('select pg_wal_replay_resume()')
    await eventually(async () => assert.equal((await fetch(`${admin}/readyz`)).status, 200), {
      what: 'the pod to be ready',
    })
  }
  seen.isOver = true
  await load
  const { rows } = await quorum.primary.admin('select seq from fleetline.messages', 'f')
  const stored = new Set(rows.map(({ seq }) => seq as number))
  const lost = [...acked].filter((seq) => !stored.has(seq)).length
  t.diagnostic(`figure acked ${acked.size}`)
  t.diagnostic(`figure reads ${seen.reads}`)
  for (const ms of backMs) t.diagnostic(`figure write_back_ms ${ms}`)
  assert.deepEqual({ lost, stale: seen.stale }, { lost: 0, stale: 0 })
  assert.ok(acked.size > 0, `${acked.size} writes were acknowledged`)
  assert.ok(seen.reads > 0, `${seen.reads} reads were answered`)
})
