// The chunks of a reply, before it is stored in the log: for readers on the pod that runs the turn, and on another pod.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Frame } from '@fleetline/protocol'
import { loadConfig } from '../../src/config.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { CHUNKS_FLUSH, createChunks, readSpoken, sweepChunks } from '../../src/session/chunks.ts'
import { createLive, stopTopic, TICK_MS } from '../../src/session/live.ts'
import { reportedIn } from '../../src/session/reported-usage.ts'
import { createTurnView } from '../../src/session/turn-view.ts'
import type { Database } from '../../src/store/database.ts'
import type { HintListener } from '../../src/store/hints.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from '../support/cleanup.ts'
import { collect } from '../support/collect.ts'
import { manualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/log.ts'
import { openMessage, openText, type Reader } from '../support/reader.ts'
import { conversationOn } from '../support/turns.ts'
import { twoPodsOn } from '../support/two-pods.ts'

/** Steps that a test lets an agent take, one after the other. */
function createSteps() {
  const steps = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
  return { until: (n: number) => steps[n]!.promise, take: (n: number) => steps[n]!.resolve() }
}

const untilSaid = (readers: readonly Reader[], turn: string, text: string) =>
  eventually(
    () =>
      assert.deepEqual(
        readers.map(({ frames }) => openText(frames, turn)),
        readers.map(() => text),
      ),
    { what: `the readers to have: ${text}` },
  )
const untilEnd = (readers: readonly Reader[], turn: string, state: string) =>
  eventually(
    () => {
      for (const { frames } of readers) {
        const last = frames.at(-1)!
        assert.ok(
          last.type === 'turn' && last.turn.id === turn && last.turn.state === state,
          JSON.stringify(last),
        )
      }
    },
    { what: `the readers to see the turn ${state}` },
  )
/** The frames that the reader received, in order, without repeats in a row and without queued turns. */
function orderOf(frames: readonly Frame[]): string[] {
  const names = frames.map((frame) =>
    frame.type === 'turn' ? `${frame.turn.state} ${frame.turn.attempt} ${frame.turn.pod}` : frame.type,
  )
  return names.filter((name, place) => name !== names[place - 1] && !name.startsWith('queued'))
}

test('D4: readers on both pods, also those that join late, see every word of the reply that is then stored', async (t) => {
  const steps = createSteps()
  const pods = await twoPodsOn(t, async function* () {
    yield { type: 'start', messageMetadata: { model: 'm' } }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'one ' }
    yield { type: 'text-delta', id: '1', delta: 'two ' }
    await steps.until(0)
    yield { type: 'text-delta', id: '1', delta: 'three' }
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish', messageMetadata: { tokens: 3 } }
    await steps.until(1)
  })
  const first = await pods.followAll()
  const { turn } = await pods.send('hi')
  await untilSaid(first, turn!, 'one two ')
  const late = await pods.followAll()
  await untilSaid(late, turn!, 'one two ')
  const back = await Promise.all(
    first.map((reader, n) => pods.resume(reader, n % 2 === 0 ? 'here' : 'there')),
  )
  const gone = [first[1]!, first[3]!].map(({ face, lastId }) => ({ face, at: lastId()! }))
  steps.take(0)
  const all = [...first, ...late]
  await untilSaid(all, turn!, 'one two three')
  await eventually(
    () => {
      for (const { frames } of all) assert.equal(openMessage(frames, turn!)?.metadata?.['tokens'], 3)
    },
    { what: 'the finish' },
  )
  steps.take(1)
  await untilEnd([...all, ...back], turn!, 'done')
  for (const { frames, items } of all) {
    const { id, role, parts, metadata } = items[1]!
    assert.deepEqual(openMessage(frames, turn!), { id, role, parts, metadata })
    assert.deepEqual(orderOf(frames.slice(frames.findIndex(({ type }) => type === 'turn'))), [
      'running 1 here',
      'chunks',
      'messages',
      'done 1 null',
    ])
  }
  for (const { frames } of back) {
    const chunks = frames.flatMap((frame) => (frame.type === 'chunks' ? frame.chunks : []))
    assert.deepEqual(chunks[0], { type: 'text-delta', id: '1', delta: 'three' }, 'they resume there')
  }
  const isGone = async () => assert.deepEqual(await pods.run('select from fleetline.chunks'), [])
  await eventually(isGone, { what: 'its chunks to be gone' })
  const behind = gone.map(({ face, at }) => pods.resume({ face, lastId: () => at }, 'there'))
  await untilEnd(await Promise.all(behind), turn!, 'done') // a reader that was away learns how the turn ended
})

test('D4: a new attempt starts the reply again for every reader, and a failure comes after what was said', async (t) => {
  const steps = createSteps()
  const pods = await twoPodsOn(t, async function* ({ turn: { attempt } }) {
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: `words of ${attempt}` }
    await steps.until(attempt - 1)
    if (attempt === 1) throw new Error('lost its thread')
    yield { type: 'nonsense' }
  })
  const readers = await pods.followAll()
  const { turn } = await pods.send('hi')
  await untilSaid(readers, turn!, 'words of 1')
  steps.take(0)
  await eventually(
    async () => {
      await pods.run(`update fleetline.tasks set run_at = now() where state = 'waiting'`)
      assert.deepEqual(
        readers.map(({ frames }) => openText(frames, turn!)),
        readers.map(() => 'words of 2'),
      )
    },
    { what: 'the second attempt' },
  )
  steps.take(1)
  await untilEnd(readers, turn!, 'failed')
  for (const { frames } of readers) {
    const told = orderOf(frames)
    assert.deepEqual(told.slice(told.indexOf('running 1 here')), [
      'running 1 here',
      'chunks',
      'running 2 here',
      'chunks',
      'messages',
      'failed 2 null',
    ])
    const items = frames.flatMap((frame) => (frame.type === 'messages' ? frame.items : []))
    assert.deepEqual(
      items.map(({ parts, status }) => ({ text: parts[0]!['text'], status })),
      [
        { text: 'hi', status: undefined },
        { text: 'words of 2', status: 'failed' },
      ],
    )
  }
})

test('D4: a reader that was away learns how turns ended, from its epoch on and in order; an invalid event id is rejected', async (t) => {
  const pods = await twoPodsOn(t, async function* ({ turn: { epoch } }) {
    if (epoch === 2) yield { type: 'nonsense' }
    yield { type: 'finish' } // the agent says nothing, so the head does not move
  })
  const reader = await pods.follow('there')
  const turns: string[] = []
  for (const text of ['a', 'b', 'c']) {
    const { turn } = await pods.send(text)
    turns.push(turn!)
    await untilEnd([reader], turn!, text === 'b' ? 'failed' : 'done')
  }
  const ends = ({ frames }: Reader) =>
    frames.flatMap((frame) => (frame.type === 'turn' && frame.turn.endedAt ? [frame.turn.id] : []))
  assert.deepEqual(ends(reader), turns)
  const asked = [
    await pods.follow('here', {}, '?epoch=2'),
    await pods.follow('there', { 'last-event-id': '3.1.7.8' }),
    await pods.overSocket('here', { after: 3, epoch: 2 }),
    await pods.overSocket('there', { cursor: '3.1.7.8' }),
  ]
  await untilEnd(asked, turns[2]!, 'done')
  for (const one of asked) assert.deepEqual(ends(one), turns.slice(1))
  const fresh = await pods.follow('there', { 'last-event-id': '3.9.1.1' }) // from another history: counts as a new reader
  const { turn } = await pods.send('d')
  await untilEnd([fresh, ...asked], turn!, 'done')
  assert.deepEqual(ends(fresh), [turn])
  for (const id of ['x', '1.', '1.2.3', '1.2.3.99999999999', '1.2.3.4294967295'])
    await assert.rejects(pods.follow('here', { 'last-event-id': id }), /400/, id)
})

test('D3: if the log is cut while a turn runs, readers start again and go on with the turn', async (t) => {
  const steps = createSteps()
  const pods = await twoPodsOn(t, async function* () {
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'word' }
    await steps.until(0)
    yield { type: 'finish' }
  })
  for (const text of ['a', 'b']) await pods.send(text)
  const readers = await pods.followAll()
  const isGap = ({ type }: Frame) => type === 'gap'
  const untilOpen = (from: (frames: readonly Frame[]) => number) =>
    eventually(
      () => {
        for (const { frames } of readers) {
          const types = frames.slice(from(frames)).map(({ type }) => type)
          assert.ok(types.includes('chunks'), types.join())
        }
      },
      { what: 'the chunks of the turn' },
    )
  await untilOpen(() => 0)
  await pods.run('delete from fleetline.messages where seq > 1; update fleetline.sessions set head = 1')
  await eventually(() => assert.ok(readers.every(({ frames }) => frames.some(isGap))), { what: 'the gap' })
  await untilOpen((frames) => frames.findLastIndex(isGap))
  steps.take(0)
  const isDone = ({ frames }: Reader) =>
    frames.some((frame) => frame.type === 'turn' && frame.turn.state === 'done')
  await eventually(() => assert.ok(readers.every(isDone)), { what: 'the end' })
})

const delta = (text: string) => ({ type: 'text-delta' as const, id: '1', delta: text })
const ANEW = { attempt: 0, next: 0 }

/** Two pods. The first runs `count` turns. Only `tick` moves the time. */
async function streaming(t: TestContext, count: number, flags: Readonly<Record<string, string>> = {}) {
  const { database, run, key, pod } = await conversationOn(t)
  const clock = manualClock()
  const seen = { statements: 0, isSilent: false }
  const listeners = new Map<string, HintListener>()
  const watched: Pick<Database, 'transaction'> = {
    transaction: async (work, options) => {
      seen.statements += 1
      const outcome = await database.transaction(work, options)
      return seen.isSilent ? { type: 'unknown', error: new Error('the answer is lost') } : outcome
    },
  }
  const parts = { clock, random: systemRandom(), log: silentLog() }
  const metrics = createMetrics()
  const open = (its = createMetrics()) =>
    createLive({
      ...createTurnView({ database, cell: 0 }),
      ...loadConfig({ environment: {}, flags }),
      database: watched,
      hints: { listen: (topic, listener) => (listeners.set(topic, listener), () => undefined) },
      ...parts,
      metrics: its,
    })
  const [here, there] = [open(metrics), open()]
  const rows = await run((query) =>
    query<{ id: string }>(
      `insert into fleetline.tasks (id, tenant, track, priority, max_attempts, input, state, attempt, pod, claimed_at)
       select gen_random_uuid(), $1, id, 5, 4, '{}', 'claimed', 1, $2, now()
         from fleetline.tracks, generate_series(1, $3) where machine = 'turn' returning id`,
      [key.tenant, pod, count],
    ),
  )
  await run((query) =>
    query(
      `insert into fleetline.turns (started_at, id, session, tenant, epoch, read_from, agent)
       select now(), id, gen_random_uuid(), tenant, 1, 1, 'demo' from fleetline.tasks`,
    ),
  )
  const turns = rows.map(({ id }) => ({ tenant: key.tenant, turn: id }))
  const fenced: string[] = []
  const streams = turns.map((turn) =>
    here.openStream({ ...turn, attempt: 1, pod, onFenced: () => fenced.push(turn.turn) }),
  )
  const watches = turns.map((turn) => there.watch(turn))
  for (const live of [here, there]) {
    atEnd(t, () => live.stop())
    await live.start()
  }
  const isStill = () => eventually(() => assert.equal(clock.sleepers, 4), { what: 'the end of the tick' })
  await isStill()
  /** Lets every loop run once. Returns how many statements that took. */
  const tick = async (ms = TICK_MS) => {
    const before = seen.statements
    await clock.advance(ms)
    await isStill()
    return seen.statements - before
  }
  const hint = (topic: string) => listeners.get(topic)!('hint')
  return { run, key, pod, seen, turns, streams, watches, fenced, tick, hint, here, database, metrics }
}

test('one statement a tick writes all streams of a pod, and one reads all turns that run elsewhere', async (t) => {
  const { tick, streams, watches, here, turns } = await streaming(t, 50)
  assert.equal(await tick(), 1, 'a read, to find who runs the turns')
  const standing = watches[7]!.version()
  for (const [n, { push }] of streams.entries()) [`a${n}`, 'b'].forEach((text) => void push(delta(text)))
  const near = here.watch(turns[7]!)
  const expected = { attempt: 1, index: 0, count: 2, chunks: [delta('a7b')] }
  assert.deepEqual(near.take(ANEW), expected, 'a reader on its pod has it at once')
  assert.equal(await tick(), 2, 'a flush and a read')
  assert.equal(await tick(), 1, 'a read')
  for (const watch of watches) assert.equal(watch.take(ANEW)?.count, 2)
  assert.deepEqual(watches[7]!.take(ANEW), expected)
  assert.equal(watches[7]!.version(), standing + 1, 'by its first chunk, a turn says what it answers')
  void streams[7]!.push(delta('c'))
  await tick()
  await tick()
  assert.equal(watches[7]!.take(ANEW)?.count, 3)
  assert.equal(watches[7]!.version(), standing + 1, 'later chunks do not change the version')
  assert.equal(watches[7]!.take({ attempt: 1, next: 1 })?.index, 0, 'inside a piece: everything so far')
  assert.equal(watches[7]!.take({ attempt: 1, next: 3 }), undefined, 'at the end: nothing yet')
  assert.equal(watches[7]!.take({ attempt: 2, next: 0 }), undefined, 'the reader has seen a later attempt')
})

test('E8: after a hint, an attempt that says nothing learns that its turn was stopped', async (t) => {
  const { tick, hint, run, turns, fenced } = await streaming(t, 2)
  const [{ turn }] = turns as [(typeof turns)[0]]
  await run((query) => query('delete from fleetline.tasks where id = $1', [turn]))
  await tick()
  assert.deepEqual(fenced, [], 'without a hint the pod does not ask')
  hint(stopTopic(turns[1]!.turn))
  hint(stopTopic(turn))
  assert.equal(await tick(), 2, 'one statement asks, one reads')
  assert.deepEqual(fenced, [turn])
  assert.equal(await tick(), 1, 'the pod asks once')
})

test('a flush whose answer is lost is sent again unchanged; readers get nothing behind a lost chunk', async (t) => {
  const { tick, streams, watches, seen, run, key, turns } = await streaming(t, 1)
  const [{ push }, watch] = [streams[0]!, watches[0]!]
  void push(delta('one '))
  seen.isSilent = true
  await tick()
  void push(delta('two '))
  seen.isSilent = false
  const both = { attempt: 1, index: 0, count: 2, chunks: [delta('one two ')] }
  const check = async () => {
    await tick()
    assert.deepEqual(watch.take(ANEW), both)
  }
  await eventually(check, { what: 'both chunks' }) // after a failure a loop pauses for a while
  const bodies = await run((query) => query('select index, count from fleetline.chunks order by index'))
  assert.deepEqual(bodies, [
    { index: 0, count: 1 },
    { index: 1, count: 1 },
  ])
  const write = (attempt: number, index: number) =>
    run((query) =>
      query(
        `insert into fleetline.chunks (tenant, turn, attempt, index, count, body) values ($1, $2, $3, $4, 1, $5)`,
        [key.tenant, turns[0]!.turn, attempt, index, JSON.stringify([delta(`${attempt}.${index} `)])],
      ),
    )
  await write(1, 7) // 2 to 6 are gone, as after a crash
  await tick()
  assert.equal(watch.take({ attempt: 1, next: 2 }), undefined)
  await run((query) => query('update fleetline.tasks set attempt = 2'))
  await write(2, 0)
  await tick()
  assert.deepEqual(watch.take({ attempt: 1, next: 2 })?.chunks, [delta('2.0 ')])
})

test('E1: chunks of an attempt that is not current are rejected; mutant, a flush without its fence', async (t) => {
  const { tick, streams, watches, fenced, run, turns, pod, database } = await streaming(t, 2)
  streams.forEach(({ push }) => push(delta('old ')))
  await tick()
  await run((query) => query('update fleetline.tasks set attempt = 2 where id = $1', [turns[0]!.turn]))
  streams.forEach(({ push }) => push(delta('dead ')))
  await tick()
  assert.deepEqual(fenced, [turns[0]!.turn], 'the other turn goes on')
  await tick()
  assert.equal(watches[0]!.take(ANEW), undefined, 'the second attempt has said nothing yet')
  assert.deepEqual(watches[1]!.take(ANEW)?.chunks, [delta('old dead ')])

  const late = { ...turns[0]!, attempt: 1, pod, index: 9, count: 1, body: '[]' }
  const flush = (change: (text: string) => string) => {
    const transaction: Database['transaction'] = (work, options) =>
      database.transaction((query) => work((text, values) => query(change(text), values)), options)
    return createChunks({ database: { transaction }, clock: systemClock(), metrics: createMetrics() }).flush([
      late,
    ])
  }
  const written = () => run((query) => query('select from fleetline.chunks where index = 9'))
  assert.deepEqual(await flush((text) => text), new Set())
  assert.deepEqual(await written(), [])
  const unfenced = (text: string) => text.replace(' and k.attempt = s.attempt', '')
  assert.notEqual(unfenced(CHUNKS_FLUSH), CHUNKS_FLUSH)
  assert.deepEqual(await flush(unfenced), new Set([0]), 'mutant: the late flush is accepted')
  assert.equal((await written()).length, 1, 'mutant: the late chunks are written')

  await run((query) => query('delete from fleetline.tasks where id = $1', [turns[0]!.turn]))
  await run(sweepChunks)
  const left = await run((query) => query<{ turn: string }>('select distinct turn from fleetline.chunks'))
  assert.deepEqual(left, [{ turn: turns[1]!.turn }], 'only the chunks without a task are swept')
})

const shown = (length: number) => ({ type: 'data-x' as const, transient: true, data: 'y'.repeat(length) })
const MOST = 8 * 1024 * 1024
const SMALL = { openTurnBytes: '524288', openBytes: `${MOST}` } // 1/8 of the first and 1/4 of the second may be unwritten

test('E9: `data-usage` chunks that are transient stay in the table, for the case that their pod dies', async (t) => {
  const { tick, streams, run, key, turns } = await streaming(t, 1)
  const step = (id: string, inputTokens: number) => ({
    type: 'data-usage' as const,
    transient: true,
    id,
    data: { usage: { inputTokens } },
  })
  const chunks = [step('1', 10), shown(10), delta('word'), shown(10), step('2', 20), step('3', 3)]
  for (const chunk of chunks) void streams[0]!.push(chunk)
  await tick()
  await tick(2_500)
  await tick() // readers have seen the transient data by now
  const attempt = { tenant: key.tenant, turn: turns[0]!.turn, attempt: 1 }
  const [batches] = await run((query) => readSpoken(query, [attempt]))
  const left = batches!.flatMap(({ body }) => JSON.parse(body) as unknown[])
  assert.deepEqual(left, [step('1', 10), delta('word'), step('2', 20), step('3', 3)])
  assert.equal(reportedIn(batches!)[0]!.inputTokens, 33)
})

const heapBytes = () => {
  collect()
  return process.memoryUsage().heapUsed
}

test('48 turns of transient data: memory stays within the settings, and every word arrives', async (t) => {
  const { tick, streams, watches, metrics, run, here, turns } = await streaming(t, 48, SMALL)
  const [near, before] = [turns.map((turn) => here.watch(turn)), heapBytes()]
  const bytesOf = async (kind: string) =>
    Number(new RegExp(`fleetline_open_bytes\\{kind="${kind}"\\} (\\d+)`).exec(await metrics.text())![1])
  let isSaid = false
  const speak = async ({ push }: (typeof streams)[0]) => {
    for (let n = 0; n < 24; n += 1) {
      await push(shown(40_000))
      await push(delta('w'))
    }
  }
  void Promise.all(streams.map(speak)).then(() => (isSaid = true))
  const within = async () => {
    await tick()
    const kept = await bytesOf('kept')
    assert.ok(kept <= MOST, `${kept} bytes kept`)
    const unwritten = await bytesOf('unwritten')
    assert.ok(unwritten <= MOST / 4 + 48 * 40_100, `${unwritten} bytes unwritten`) // each turn may add one chunk
    assert.ok(isSaid)
  }
  await eventually(within, { what: 'all to be said' }) // 46 MB
  const wordsOf = (watch: (typeof near)[0]) => {
    let [text, spot] = ['', ANEW]
    for (let taken = watch.take(spot); taken; taken = watch.take(spot)) {
      spot = { attempt: taken.attempt, next: taken.index + taken.count }
      for (const chunk of taken.chunks) if (chunk.type === 'text-delta') text += chunk.delta
    }
    return text
  }
  const allThere = async () => {
    await tick()
    for (const watch of [...near, ...watches]) assert.equal(wordsOf(watch), 'w'.repeat(24))
  }
  await eventually(allThere, { what: 'every word on both pods' })
  const grown = heapBytes() - before
  assert.ok(grown < 3 * MOST, `${grown} bytes more for two pods`)
  await tick(2_500)
  await tick() // readers have seen the transient data by now
  const [row] = await run((query) =>
    query<{ bytes: number }>('select sum(octet_length(body))::int as bytes from fleetline.chunks'),
  )
  assert.ok(row!.bytes < 48 * 24 * 100, `${row!.bytes} bytes in the table, which should hold only words`)
})
