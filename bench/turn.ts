// Measures the time from a message to the first word of its reply: through one pod, with the reader on another pod, and from
// the agent called directly over HTTP, which stores nothing. Readers of a pod connect before the message is sent, as in a chat.
// All readers are in this process. Afterwards the log must have each acknowledged message once, and its whole reply once.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { Frame, Page } from '@fleetline/protocol'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { migrateUp } from '../packages/server/src/store/migrate.ts'
import { atEnd, type Scope } from '../packages/server/test/support/cleanup.ts'
import { eventually } from '../packages/server/test/support/eventually.ts'
import { call, makeSession } from '../packages/server/test/support/http.ts'
import { startPod } from '../packages/server/test/support/pods.ts'
import { runProgram } from '../packages/server/test/support/program.ts'
import { rounded, versionOf, type Bench, type Size as BenchSize } from './support/report.ts'
import { medianOf, quantileOf, runRounds } from './support/rounds.ts'
import { SPEECH } from './support/speech.ts'

type Size = {
  readonly replies: number
  readonly rounds: number
  readonly warmReplies: number
  /** How many run at a time. */
  readonly talks: readonly number[]
}
const SIZES: Readonly<Record<BenchSize, Size>> = {
  full: { replies: 15, rounds: 5, warmReplies: 5, talks: [1, 32] },
  quick: { replies: 10, rounds: 3, warmReplies: 5, talks: [1, 32] },
  smoke: { replies: 1, rounds: 1, warmReplies: 1, talks: [1] },
}
const DATABASE = 'turn'
const MOST_MS = 120_000 // time limit of one talk
const APP = join(import.meta.dirname, 'ours/turn-app.ts')
const DIRECT = join(import.meta.dirname, 'bare/turn.ts')

/** Runs talks, each with one message under way. Resolves to the times from sending a message to the first word, in ms. */
type Measure = (talks: number, replies: number) => Promise<readonly number[]>

export const turnBench: Bench = async ({ size, startServer }, scope) => {
  const { replies, rounds, warmReplies, talks: sizes } = SIZES[size]
  const cluster = await startServer()
  await cluster.admin(`create database ${DATABASE}`)
  const url = cluster.urlOf(DATABASE)
  await migrateUp({ databaseUrl: url })
  const real = {
    FLEETLINE_TTL_MS: '5000',
    FLEETLINE_BEAT_MS: '1000',
    FLEETLINE_REQUESTS_PER_SOCKET: '1000000',
  }
  const runs = await startPod(scope, url, real, APP)
  const reads = await startPod(scope, url, real) // it has no agent
  const acked = new Map<string, number>()
  const through = (reader: string): Measure => ours(scope, { writer: runs.gateway, reader, acked })
  const measures: Readonly<Record<string, Measure>> = {
    direct: await direct(scope),
    'through its pod': through(runs.gateway),
    'through another pod': through(reads.gateway),
  }
  const cells = Object.entries(measures).flatMap(([name, measure]) =>
    sizes.map((talks) => ({ name: `${name}, ${talks}`, run: () => measure(talks, replies) })),
  )
  await Promise.all(Object.values(measures).map((measure) => measure(4, warmReplies))) // warm-up
  const results = await runRounds(cells, rounds)
  const lost = await lostIn(runs.gateway, acked)
  return {
    ratios: {},
    times: Object.fromEntries(sizes.flatMap((talks) => addedAt(results, talks))),
    counts: { acked: [...acked.values()].reduce((sum, count) => sum + count, 0), lost },
    table: [
      ['cell, talks at a time', 'p50 ms', 'p99 ms'],
      ...Array.from(results, ([name, all]) => [
        name,
        rounded(quantileOf(all.flat(), 0.5)),
        rounded(quantileOf(all.flat(), 0.99)),
      ]),
    ],
    faults: lost === 0 ? [] : [`${lost} messages or replies are not in the log once, as they were said`],
    postgres: await versionOf(cluster),
  }
}

/** How much later the first word comes through a pod than directly: the median of the differences of all rounds. */
function addedAt(results: ReadonlyMap<string, readonly (readonly number[])[]>, talks: number) {
  const medians = (name: string) => results.get(`${name}, ${talks}`)!.map(medianOf)
  const base = medians('direct')
  const added = (name: string) => medianOf(medians(name).map((ms, round) => ms - base[round]!))
  return [
    [`added_ms_its_pod_${talks}`, added('through its pod')],
    [`added_ms_another_pod_${talks}`, added('through another pod')],
  ] as const
}

async function direct(scope: Scope): Promise<Measure> {
  const server = runProgram(scope, DIRECT)
  await eventually(() => assert.match(server.output(), /^\d+\n/), {
    what: 'the agent',
    details: server.output,
  })
  const url = `http://127.0.0.1:${server.output().trim()}`
  const talk = async (replies: number) => {
    const waits: number[] = []
    for (let n = 0; n < replies; n += 1) {
      const startMs = performance.now()
      const answer = await fetch(url, { method: 'POST', body: JSON.stringify({ text: `question ${n}` }) })
      let hasSpoken = false
      for await (const chunk of eventsOf<{ type: string }>(answer)) {
        if (hasSpoken || chunk.type !== 'text-delta') continue
        hasSpoken = true
        waits.push(performance.now() - startMs)
      }
    }
    return waits
  }
  return allTalking(async () => talk)
}

type Through = {
  readonly writer: string
  readonly reader: string
  /** The number of acknowledged messages, by session. */
  readonly acked: Map<string, number>
}

function ours(scope: Scope, { writer, reader, acked }: Through): Measure {
  return allTalking(async () => {
    const { session } = await makeSession(writer, { agent: 'bot' })
    const closing = new AbortController()
    atEnd(scope, () => closing.abort())
    const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(MOST_MS)])
    const answer = await fetch(`${reader}/v1/sessions/${session}/events`, { signal })
    const frames = eventsOf<Frame>(answer)
    return async (replies) => {
      const waits: number[] = []
      for (let n = 0; n < replies; n += 1) {
        const startMs = performance.now()
        const sent = call('POST', `${writer}/v1/sessions/${session}/messages`, { text: `question ${n}` })
        const stored = sent.then((answer) => assert.equal(answer.status, 200, JSON.stringify(answer.body)))
        const [spokenMs] = await Promise.all([untilSpoken(frames), stored])
        waits.push(spokenMs - startMs)
        acked.set(session, n + 1)
        await untilDone(frames)
      }
      closing.abort()
      return waits
    }
  })
}

/** Opens all talks before the first one begins. */
function allTalking(open: () => Promise<(replies: number) => Promise<number[]>>): Measure {
  return async (talks, replies) => {
    const all = await Promise.all(Array.from({ length: talks }, open))
    return (await Promise.all(all.map((talk) => talk(replies)))).flat()
  }
}

/** A late reader receives nothing until the reply is in the log. Then the stored reply counts as the first word. */
async function untilSpoken(frames: AsyncIterator<Frame>): Promise<number> {
  await until(frames, (frame) =>
    frame.type === 'chunks'
      ? frame.chunks.some(({ type }) => type === 'text-delta')
      : frame.type === 'messages' && frame.items.some(({ role }) => role === 'assistant'),
  )
  return performance.now()
}

function untilDone(frames: AsyncIterator<Frame>): Promise<void> {
  return until(frames, (frame) => frame.type === 'turn' && frame.turn.state === 'done')
}

async function until(frames: AsyncIterator<Frame>, isIt: (frame: Frame) => boolean): Promise<void> {
  for (;;) {
    const { done, value } = await frames.next()
    if (done) throw new Error('The stream ended')
    if (value.type === 'turn' && value.turn.state === 'failed') throw new Error(JSON.stringify(value.turn))
    if (isIt(value)) return
  }
}

async function* eventsOf<Event>(answer: Response): AsyncGenerator<Event, undefined> {
  const parsed = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  for await (const { data } of parsed) yield JSON.parse(data) as Event
  return undefined
}

/** Counts messages and replies that are missing or stored twice, and replies that differ from what the agent said. */
async function lostIn(gateway: string, acked: ReadonlyMap<string, number>): Promise<number> {
  let lost = 0
  for (const [session, count] of acked) {
    const { body } = await call('GET', `${gateway}/v1/sessions/${session}/messages?after=0&limit=100`)
    const { items } = body as unknown as Page
    const asked = items.filter(({ role }) => role === 'user')
    const replies = items.filter(({ role, parts }) => role === 'assistant' && parts[0]!['text'] === SPEECH)
    const answered = new Set(replies.map(({ answers }) => answers))
    lost +=
      Math.abs(asked.length - count) + (count - answered.size) + (items.length - asked.length - answered.size)
  }
  return lost
}
