// E8 when a stop races with the end of its turn: a thousand conversations, each stopped through another pod about when its turn
// would end by itself. Whichever comes first counts, and the other changes nothing. The answer to the stop matches what is stored,
// nothing of a stopped turn is written after its stop, and every stopped turn halts. The number of each outcome and the time that a
// stop takes are figures.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Ack, Page, Session, StopAck, Turn } from '@fleetline/protocol'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { proofSize } from '../support/proof-size.ts'

const STOPS = proofSize({ full: 1_000, quick: 200 })
const AT_ONCE = 20
const SAMPLES = 20 // turns that are not stopped, to measure how long a turn takes
const AROUND = { beforeMs: 150, behindMs: 50 }

test(`E8: the answers to ${STOPS} stops, each about when its turn ends, match what is stored`, async (t) => {
  const url = await databaseFor(t)
  const [runs, asked] = [await startPod(t, url, { FLEETLINE_DEMO_AGENT: 'yes' }), await startPod(t, url)]
  const get = async <T>(path: string) =>
    (await call('GET', `${asked.gateway}/v1${path}`)).body as unknown as T
  const send = async (session: string) =>
    (await call('POST', `${asked.gateway}/v1/sessions/${session}/messages`, { text: 'hi' }))
      .body as unknown as Required<Ack>
  const begin = async () => {
    const { session } = await makeSession(runs.gateway, { agent: 'demo' })
    return { session, ack: await send(session), startMs: performance.now() }
  }
  const untilTurn = (id: string, is: (turn: Turn) => boolean) =>
    eventually(
      async () => {
        const turn = await get<Turn>(`/turns/${id}`)
        assert.ok(is(turn), JSON.stringify(turn))
        return turn
      },
      { what: 'the turn', patienceMs: 60_000 },
    )

  const inTurn = async () => {
    const { ack } = await begin()
    const { startedAt, endedAt } = await untilTurn(ack.turn, ({ state }) => state === 'done')
    return Date.parse(endedAt!) - Date.parse(startedAt)
  }
  /** Returns whether the turn was stopped. */
  const race = async (usualMs: number): Promise<boolean> => {
    const { session, ack } = await begin()
    const spreadMs = AROUND.beforeMs + AROUND.behindMs
    await pause(Math.max(0, usualMs - AROUND.beforeMs + Math.random() * spreadMs))
    const startMs = performance.now()
    const body = { turn: ack.turn, epoch: ack.epoch }
    const stop = async () =>
      (await call('POST', `${asked.gateway}/v1/sessions/${session}/stop`, body)).body as unknown as StopAck
    const { stopped, seq } = await stop()
    t.diagnostic(`figure stop_ms ${performance.now() - startMs}`)
    const log = () => get<Page>(`/sessions/${session}/messages`)
    const atStop = await log()
    const turn = await untilTurn(ack.turn, ({ endedAt, halted }) => endedAt !== null && halted !== false)
    const [after, { epoch, state }] = [await log(), await get<Session>(`/sessions/${session}`)]
    assert.deepEqual(after, atStop) // nothing was stored after the answer
    assert.equal(turn.state, stopped ? 'stopped' : 'done')
    assert.equal(epoch, stopped ? 2 : 1)
    assert.equal(state, 'idle')
    const [, reply] = after.items
    assert.equal(reply?.seq ?? null, stopped ? seq : 2)
    assert.equal(reply?.status, stopped && reply ? 'stopped' : undefined)
    const text = (reply?.parts[0]!['text'] ?? '') as string
    assert.ok(stopped ? 'You said: hi'.startsWith(text) : text === 'You said: hi', text)
    assert.deepEqual(await stop(), { stopped, seq }, 'a repeat is answered like the first')
    return stopped
  }

  const samples: number[] = []
  for (let n = 0; n < SAMPLES; n += 1) samples.push(await inTurn())
  const usualMs = samples.toSorted((a, b) => a - b)[SAMPLES / 2]!
  const results: boolean[] = []
  const worker = async () => {
    while (results.length < STOPS) results.push(await race(usualMs))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const stopped = results.filter(Boolean).length
  assert.ok(stopped > 0 && stopped < results.length, `no race: ${stopped} of ${results.length} were stopped`)
  const halts = await Promise.all([runs, asked].map(({ admin }) => haltsOf(admin)))
  const halted = (le: string) => halts.reduce((sum, one) => sum + (one.get(le) ?? 0), 0)
  t.diagnostic(`figure halted_within_100ms ${halted('0.1')}`)
  t.diagnostic(`figure halted_within_1s ${halted('1')}`)
  t.diagnostic(`figure halted ${halted('+Inf')}`)
  t.diagnostic(`figure stopped ${stopped}`)
  t.diagnostic(`figure ended_first ${results.length - stopped}`)
})

/** From the commit of a stop to the end of the agent's call, by the clock of the database: how many within each limit. */
async function haltsOf(admin: string): Promise<Map<string, number>> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const found = text.matchAll(/^fleetline_halt_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm)
  return new Map(Array.from(found, ([, le, count]) => [le!, Number(count)]))
}
