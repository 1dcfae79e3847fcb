// E1 E5 D4 with the ttl and the beat of production: the pod that runs the turns of fifty conversations is killed, once at every
// named point. Another pod answers them all: each gets one reply, and every follower receives it. The time from the kill until a
// missing reply is stored is a figure; the test does not judge it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from '@fleetline/protocol'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { proofSize } from '../support/proof-size.ts'
import { openText, readEvents } from '../support/reader.ts'

const SESSIONS = proofSize({ full: 50, quick: 30 })
const REAL = { FLEETLINE_TTL_MS: '5000', FLEETLINE_BEAT_MS: '1000' }
const AGENT = { ...REAL, FLEETLINE_DEMO_AGENT: 'yes' }
/** Where the pod is killed, and the message that it is sent. With `fail`, two attempts fail and are settled as tasks are. */
const POINTS = [
  ['append.committed:2', 'some words'],
  ['turn.gathered:20', 'some words'],
  ['turn.chunk:100', 'some words'],
  ['turn.ending:10', 'some words'],
  ['settle.before:2', 'fail'],
] as const

for (const [point, words] of POINTS) {
  test(`E1 E5 D4: if the pod is killed at ${point}, each of ${SESSIONS} conversations gets one reply`, async (t) => {
    const url = await databaseFor(t)
    const stays = await startPod(t, url, REAL) // it has no agent; it leads, and readers use it
    const dies = await startPod(t, url, { ...AGENT, FLEETLINE_CRASH: `${point}:kill` })
    const sessions = await Promise.all(
      Array.from({ length: SESSIONS }, () => makeSession(dies.gateway, { agent: 'demo' })),
    )
    const talks = sessions.map(({ session }, n) => ({ session, text: `${words} ${n}` }))
    const readers = await Promise.all(talks.map(({ session }) => read(t, stays.gateway, session)))
    let killedMs = 0
    void dies.program.ended.then(() => (killedMs = Date.now()))
    const sent = talks.map((talk) => send([dies.gateway, stays.gateway], talk))
    const what = { patienceMs: 60_000, details: dies.program.output }
    await eventually(() => assert.ok(dies.program.hasEnded()), { what: 'the kill', ...what })
    assert.equal((await dies.program.ended).signal, 'SIGKILL')
    await startPod(t, url, AGENT)
    await Promise.all(sent)

    const isWhole = async (n: number) => {
      const [{ session, text }, { frames }] = [talks[n]!, readers[n]!]
      const page = (await call('GET', `${stays.gateway}/v1/sessions/${session}/messages`))
        .body as unknown as Page
      const said = page.items.map(({ parts }) => parts[0]!['text'])
      assert.deepEqual(said, [text, `You said: ${text}`])
      const last = frames.at(-1)!
      assert.ok(
        last.type === 'turn' && last.turn.state === 'done' && last.turn.epoch === 1,
        JSON.stringify(last),
      )
      openText(frames, last.turn.id)
      const told = frames.flatMap((frame) => (frame.type === 'messages' ? frame.items : []))
      assert.deepEqual(told, page.items)
      return page.items[1]!.at
    }
    const ends = talks.map(async (_, n) =>
      eventually(() => isWhole(n), { what: `the reply in session ${n}`, patienceMs: 120_000 }),
    )
    // PostgreSQL runs on this machine, so `at` and `killedMs` come from the same clock.
    const seconds = (await Promise.all(ends)).map((at) => (Date.parse(at) - killedMs) / 1000)
    const later = seconds.filter((s) => s > 0)
    assert.ok(later.length > 0, `${later.length} replies were stored after the kill`)
    for (const s of later) t.diagnostic(`figure stored_s.${point.split(':')[0]} ${s}`)
  })
}

function read(t: TestContext, gateway: string, session: string) {
  return readEvents(t, `${gateway}/v1/sessions/${session}/events`)
}

/** Sends as an application does: under one id, through one pod after the other until one answers. */
async function send(
  gateways: readonly string[],
  { session, text }: { session: string; text: string },
): Promise<void> {
  const message = { id: 'm-1', role: 'user', parts: [{ type: 'text', text }] }
  for (let tries = 0; ; tries += 1) {
    const url = `${gateways[tries % gateways.length]}/v1/sessions/${session}/messages`
    const answer = await call('POST', url, { message }).catch(() => undefined)
    if (answer && answer.status < 500) return assert.equal(answer.status, 200)
    await pause(200)
  }
}
