// Answers of agents, in large numbers: streams as three releases of the AI SDK write them, hostile agents, addresses that are
// blocked, and damaged bytes. `npm ci --prefix bench --ignore-scripts` installs the older releases.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChunkError, createAssembler, createChunkDecoder, chunkOfText, type Chunk } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { inNewWords, releaseOf, writtenBy } from '../../../protocol/test/support/releases.ts'
import { anyStream, assembled, json, left, reduced } from '../../../protocol/test/support/streams.ts'
import { AgentFault } from '../../src/agent/fault.ts'
import { INSIDE, LOOPBACK } from '../support/addresses.ts'
import { agentServer, lines } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { hostileAgents, MORE_HOSTILE } from '../support/hostile-agents.ts'
import { call } from '../support/http.ts'
import { ASKABLE, memoryOf } from '../support/pod-memory.ts'
import { startPod } from '../support/pods.ts'
import { talkOn } from '../support/talk.ts'
import { proofSize } from '../support/proof-size.ts'
import { callAt, socketServer } from '../support/webhook.ts'

const STREAMS = { numRuns: proofSize({ full: 10_000, quick: 1_000 }), seed: 20 }
const encoder = new TextEncoder()

const inEvents = (stream: readonly Chunk[]) =>
  encoder.encode(stream.map((one) => `data: ${JSON.stringify(one)}\n\n`).join(''))

/** Decodes the bytes as a pod does, cut into pieces at these places. */
function received(bytes: Uint8Array, at: readonly number[]): Chunk[] {
  const decoder = createChunkDecoder()
  const places = [...at.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  const pieces = places.map((end, nth) => bytes.subarray(places[nth - 1] ?? 0, end))
  return [...pieces.flatMap((piece) => decoder.push(piece)), ...decoder.end()].map(chunkOfText)
}
const cuts = fc.array(fc.nat(), { maxLength: 5 })

test(`${STREAMS.numRuns} streams in any order give the message that ai 7 makes, or are rejected as ai 7 rejects them`, async () => {
  const same = fc.asyncProperty(anyStream, cuts, async (stream, at) => {
    assert.deepEqual(json(assembled(received(inEvents(stream), at))), json(await reduced(stream)))
  })
  await fc.assert(same, STREAMS)
})

for (const [name, most] of [
  ['ai5', 23],
  ['ai6', 25],
] as const)
  test(`${STREAMS.numRuns} streams that ${name} writes give the message that ${name} makes`, async () => {
    const release = await releaseOf(name)
    const types = new Set<string>()
    const same = fc.asyncProperty(anyStream, cuts, async (stream, at) => {
      const written = await writtenBy(release, stream)
      for (const { type } of written) types.add(type)
      const [ours, theirs] = [assembled(received(inEvents(written), at)), await left(written, release.read)]
      assert.equal(ours.isRefused, false)
      assert.deepEqual(inNewWords(ours.message), inNewWords(theirs.message))
    })
    await fc.assert(same, STREAMS)
    assert.equal(types.size, most, `${types.size} kinds of chunks`)
  })

const FLAGS = {
  ...ASKABLE,
  FLEETLINE_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
  FLEETLINE_AGENT_HOSTS: '127.0.0.1',
  FLEETLINE_SLOTS: '100', // for all of them at once
  FLEETLINE_AGENT_FIRST_MS: '20000',
  FLEETLINE_AGENT_SILENCE_MS: '20000',
}
const MB = 1024 * 1024
const MORE_MB = 64

const PATIENT = { patienceMs: 180_000 }

test('S14: 60 hostile agents, one by one and at once, leave an honest agent undisturbed and the memory of the pod limited', async (t) => {
  const hostile = await hostileAgents(t)
  const honest = await agentServer(t, (_, response) => lines(response))
  const url = await databaseFor(t)
  const { gateway, program } = await startPod(t, url, FLAGS)
  const talkTo = async (name: string, at: string) => {
    assert.equal((await call('POST', `${gateway}/v1/agents`, { name, url: at })).status, 201)
    return talkOn(t, { url, gateway, agent: name })
  }
  const neighbour = await talkTo('honest', honest.url)
  const answered = async () => (await neighbour.ended((await neighbour.send('hi')).turn!, PATIENT)).state
  const names = Object.keys(MORE_HOSTILE)
  assert.ok(names.length >= 60, `${names.length} agents`)
  const talks = new Map<string, Awaited<ReturnType<typeof talkOn>>>()
  for (const name of names) talks.set(name, await talkTo(name, hostile.urlOf(name)))
  const ask = async (name: string) => (await talks.get(name)!.send('hi')).turn!
  const endOf = async (name: string, turn: string) => {
    const { error, state } = await talks.get(name)!.ended(turn, PATIENT)
    assert.equal(error?.code ?? state, MORE_HOSTILE[name]!.ends, name)
  }
  assert.equal(await answered(), 'done')
  const before = await memoryOf(program)
  /** Checks how much more memory the pod holds than before, after it has collected its garbage. */
  const grown = async (when: string) => {
    const now = await memoryOf(program)
    const heldMb = (now.heapUsed + now.external - before.heapUsed - before.external) / MB
    t.diagnostic(`figure held_more_${when}_mb ${heldMb}`)
    t.diagnostic(`figure rss_more_${when}_mb ${(now.rss - before.rss) / MB}`)
    assert.ok(heldMb <= MORE_MB, `${heldMb} MB`)
  }
  for (const name of names.filter((one) => MORE_HOSTILE[one]!.ends !== 'timeout'))
    await endOf(name, await ask(name))
  await grown('one_by_one')
  const turns = await Promise.all(names.map(ask))
  assert.equal(await answered(), 'done')
  const isOpen = async (name: string, nth: number) =>
    (await talks.get(name)!.turn(turns[nth]!)).endedAt === null
  const open = (await Promise.all(names.map(isOpen))).filter(Boolean).length
  assert.ok(open > 0, `${open} hostile agents were still open when the honest one had answered`)
  t.diagnostic(`figure hostile_agents_open_beside_the_answer ${open}`)
  for (const [nth, name] of names.entries()) await endOf(name, turns[nth]!)
  t.diagnostic(`figure hostile_agents ${names.length}`)
  await grown('at_once')
})

test('S13: 200 URLs that lead to internal addresses are blocked without a connection', async (t) => {
  const { sockets, port } = await socketServer(t, (socket) => socket.end())
  const ways = [
    `http://H:${port}/`,
    'https://H/',
    'http://H/',
    'https://user:word@H/a?b#c',
    `https://H:${port}/`,
  ]
  const urls = [...LOOPBACK, ...INSIDE].flatMap((host) => ways.map((way) => way.replace('H', host)))
  for (const url of urls)
    await assert.rejects(
      callAt(url, { open: '' }),
      (error) => error instanceof AgentFault && error.code === 'agent_blocked',
      url,
    )
  assert.equal(sockets.length, 0)
  assert.ok(new Set(urls).size >= 200, `${new Set(urls).size} URLs`)
  t.diagnostic(`figure urls ${urls.length}`)
})

const FUZZ_MS = proofSize({ full: 60_000, quick: 5_000 })
const hurts = fc.array(
  fc.record({
    kind: fc.constantFrom('flip', 'cut', 'repeat', 'insert'),
    at: fc.nat(),
    count: fc.integer({ min: 1, max: 64 }),
    bytes: fc.uint8Array({ maxLength: 8 }),
  }),
  { minLength: 1, maxLength: 4 },
)

type Hurt = { readonly kind: string; readonly at: number; readonly count: number; readonly bytes: Uint8Array }
function hurt(bytes: Uint8Array, { kind, at, count, bytes: other }: Hurt): Uint8Array {
  const place = at % (bytes.length + 1)
  const [before, after] = [bytes.subarray(0, place), bytes.subarray(place)]
  if (kind === 'cut') return Buffer.concat([before, after.subarray(count)])
  if (kind === 'repeat') return Buffer.concat([before, after.subarray(0, count), after])
  if (kind === 'insert') return Buffer.concat([before, other, after])
  return Uint8Array.from(bytes, (byte, nth) => (nth === place ? byte ^ count : byte))
}

test(`${FUZZ_MS / 1000} s of damaged bytes give chunks or a ChunkError, and nothing else`, (t) => {
  const until = performance.now() + FUZZ_MS
  let [texts, refused] = [0, 0]
  for (let seed = 1; performance.now() < until; seed += 1) {
    const property = fc.property(anyStream, hurts, cuts, (stream, all, at) => {
      texts += 1
      try {
        const assembler = createAssembler('m')
        for (const one of received(all.reduce(hurt, inEvents(stream)), at)) assembler.push(one)
        JSON.stringify(assembler.message())
      } catch (error) {
        assert.ok(error instanceof ChunkError, String(error))
        refused += 1
      }
    })
    fc.assert(property, { numRuns: 500, seed })
  }
  assert.deepEqual(Object.keys(Object.prototype), [])
  t.diagnostic(`figure fuzzed ${texts}`)
  t.diagnostic(`figure fuzzed_refused ${refused}`)
})
