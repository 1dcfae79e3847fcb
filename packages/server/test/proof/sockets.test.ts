// S16 S17: many sockets that read nothing, and hostile ones, beside healthy ones. The memory of the pod stays bounded, each bad client is
// disconnected, and the healthy ones get everything. How much later they get it is a figure.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { CLOSE_CODES, type FollowedFrame } from '@fleetline/protocol'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { fill } from '../support/fill.ts'
import { call, makeSession, sayRaw } from '../support/http.ts'
import { ASKABLE, memoryOf } from '../support/pod-memory.ts'
import { startPod } from '../support/pods.ts'
import { proofSize } from '../support/proof-size.ts'
import { OPCODES, pieceOf, rawSocketOn, textOf } from '../support/raw-socket.ts'
import { socketOn, type Socket } from '../support/socket.ts'

const STALLED = proofSize({ full: 500, quick: 50 })
const HOSTILE = proofSize({ full: 100, quick: 30 })
const HEALTHY = 20
const [MESSAGES, MESSAGE_BYTES] = [500, 40_000] // more than the system holds for a connection
const EVERY_MS = 20
const MOST_RSS = 600 * 1024 * 1024
const MB = 1024 * 1024
/** The beginning of a frame of 100 MB. */
const HUGE = pieceOf(Buffer.alloc(100 * MB), { opcode: OPCODES.text }).subarray(0, 4 * MB)
const { tooLarge, tooMany, malformed, unauthenticated, overload } = CLOSE_CODES
/** How attacks end; a hello that a busy machine sends late is one of them. */
const ENDS: ReadonlySet<number | undefined> = new Set([
  tooLarge,
  tooMany,
  malformed,
  unauthenticated,
  overload,
  431,
])

async function fleetOn(t: TestContext) {
  const url = await databaseFor(t)
  const pod = await startPod(t, url, { ...ASKABLE, FLEETLINE_STALL_MS: '5000' })
  const [large, small] = [await makeSession(pod.gateway), await makeSession(pod.gateway)]
  await fill(url, { count: MESSAGES, length: MESSAGE_BYTES, session: large.session })
  return { ...pod, large: large.session, small: small.session }
}

/** Writes a message every 20 ms, and notes how long each took to every reader. */
function writing(gateway: string, session: string, readers: readonly Socket[]) {
  const [delays, sentMs]: [number[], Map<string, number>] = [[], new Map()]
  let isOver = false
  for (const { ws } of readers)
    ws.on('message', (data) => {
      const frame = JSON.parse((data as Buffer).toString()) as FollowedFrame
      if (frame.type !== 'messages') return
      for (const { id } of frame.items) delays.push(performance.now() - (sentMs.get(id) ?? performance.now()))
    })
  const write = async () => {
    for (let n = 0; !isOver; n += 1, await pause(EVERY_MS)) {
      const id = `${performance.now().toFixed(3).replace('.', '-')}-${n}`
      sentMs.set(id, performance.now())
      await call('POST', `${gateway}/v1/sessions/${session}/messages`, {
        message: { id, parts: [{ type: 'text', text: 'x' }] },
      })
    }
  }
  const written = write()
  return {
    take: (): { readonly p50: number; readonly p99: number } => {
      const sorted = delays.splice(0).toSorted((a, b) => a - b)
      const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0
      return { p50: at(0.5), p99: at(0.99) }
    },
    end: async () => {
      isOver = true
      await written
      return sentMs.size
    },
  }
}

const inAll = <T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => work(n)))

test(`S16 S17: ${STALLED} stalled and ${HOSTILE} hostile sockets cost a bounded amount, and healthy ones are served`, async (t) => {
  const { program, gateway, admin, large, small } = await fleetOn(t)
  const healthy: Socket[] = []
  for (let n = 0; n < HEALTHY; n += 1) healthy.push(await socketOn(t, gateway))
  for (const socket of healthy) await socket.ask({ type: 'join', session: small, after: 0 })
  const writer = writing(gateway, small, healthy)
  await pause(5_000)
  const [alone, before] = [writer.take(), await memoryOf(program)]

  const stalled: Socket[] = []
  await inAll(STALLED, async () => {
    const socket = await socketOn(t, gateway)
    stalled.push(socket)
    await socket.ask({ type: 'join', session: large, after: 0 })
    socket.ws.pause()
  })
  let most = before.rss
  const isCut = async () => {
    most = Math.max(most, (await memoryOf(program)).rss)
    const metrics = await (await fetch(`${admin}/metrics`)).text()
    assert.match(metrics, new RegExp(`^fleetline_sockets ${HEALTHY}$`, 'm'))
  }
  await eventually(isCut, { what: 'the stalled ones to be cut', patienceMs: 240_000 })
  const beside = writer.take()
  const [one] = stalled
  one!.ws.resume()
  await one!.closed
  const back = await socketOn(t, gateway)
  await back.ask({ type: 'join', session: large, cursor: one!.followed().at(-1)!.cursor })
  const seqs = () =>
    [...one!.followed(), ...back.followed()].flatMap((frame) =>
      frame.type === 'messages' ? frame.items.map(({ seq }) => seq) : [],
    )
  await eventually(() => assert.equal(seqs().at(-1), MESSAGES), {
    what: 'the one that came back to be whole',
  })
  assert.deepEqual(
    seqs(),
    Array.from({ length: MESSAGES }, (_, n) => n + 1),
  )
  back.cut()

  const port = Number(new URL(gateway).port)
  const codes = await inAll(HOSTILE, async (n) => attack(t, port, n))
  for (const code of codes) assert.ok(ENDS.has(code), `${code}`)
  most = Math.max(most, (await memoryOf(program)).rss)
  const count = await writer.end()
  for (const socket of healthy)
    await eventually(
      () => {
        const got = socket.followed().flatMap((frame) => (frame.type === 'messages' ? frame.items : []))
        assert.equal(got.length, count)
      },
      { what: 'a healthy reader to have everything' },
    )
  t.diagnostic(`figure stalled ${STALLED}`)
  t.diagnostic(`figure rss_before_mb ${before.rss / MB}`)
  t.diagnostic(`figure rss_most_mb ${most / MB}`)
  t.diagnostic(`figure p50_alone_ms ${alone.p50}`)
  t.diagnostic(`figure p99_alone_ms ${alone.p99}`)
  t.diagnostic(`figure p50_beside_ms ${beside.p50}`)
  t.diagnostic(`figure p99_beside_ms ${beside.p99}`)
  assert.ok(most < before.rss + MOST_RSS, `${most / MB} MB`)
})

/** Resolves to the code with which the pod answers. */
async function attack(t: TestContext, port: number, n: number): Promise<number | undefined> {
  if (n % 4 === 0) {
    const headers = Array.from({ length: 2_000 }, (_, one) => `x-${one}: 1`).join('\r\n')
    const answer = await sayRaw(port, `GET /v1/socket HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n\r\n`)
    return Number(answer.split(' ')[1])
  }
  const raw = await rawSocketOn(t, port)
  const hello = textOf({ type: 'hello' })
  if (n % 4 === 1) {
    raw.write(hello)
    raw.write(HUGE)
  }
  if (n % 4 === 2)
    raw.write(Buffer.concat([hello, ...Array.from({ length: 2_000 }, () => textOf({ type: 'ping' }))]))
  if (n % 4 === 3) raw.write(pieceOf('{"type":', { opcode: OPCODES.text }))
  await raw.closed
  return raw.code()
}
