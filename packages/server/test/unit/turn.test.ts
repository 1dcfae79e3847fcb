// The agent's side of a turn: how each stream ends, what an agent reads, and what the demo agent says.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { createAssembler, chunkOf, formatId, type Chunk, type Item } from '@fleetline/protocol'
import { simulateReadableStream } from 'ai'
import { agent, agentsOf, LIFE, type AgentCall, type AgentDefinition } from '../../src/agent/agent.ts'
import { AgentFault } from '../../src/agent/fault.ts'
import { demoAgent } from '../../src/agent/demo.ts'
import { yieldToEventLoop, systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import type { Runner } from '../../src/task/runner.ts'
import { CALL_LIMITS, callAgent, type CallLimits } from '../../src/turn/call.ts'
import { createCompactMachines } from '../../src/turn/compact.ts'
import { inOrder, cutToWindow } from '../../src/turn/gather.ts'
import { manualClock } from '../support/clock.ts'
import { silentLog } from '../support/log.ts'

const UUID = '01980000-0000-7000-8000-000000000000'
const [SESSION, TURN, MESSAGE] = [
  formatId('session', 0, UUID),
  formatId('turn', 0, UUID),
  formatId('message', 0, UUID),
]

function callWith(text: string, more: Partial<AgentCall['turn']> = {}): AgentCall {
  return {
    id: SESSION,
    trigger: 'submit-message',
    messages: [{ id: 'a', role: 'user', parts: [{ type: 'text', text }] }],
    turn: {
      id: TURN,
      epoch: 1,
      attempt: 1,
      messageId: MESSAGE,
      answers: { from: 1, to: 1 },
      resume: 'restart',
      ...more,
    },
    session: { id: SESSION, title: null, metadata: null },
    agent: { id: 'a' },
    deadlineMs: 900_000,
    signal: new AbortController().signal,
  }
}

type Chunks = readonly { readonly type: string; readonly [field: string]: unknown }[]
const saying = (chunks: Chunks) => agent('a', () => simulateReadableStream({ chunks: [...chunks] }))
const [START, OPEN, CLOSE, FINISH] = [
  { type: 'start', messageId: 'of-the-agent' },
  { type: 'text-start', id: '1' },
  { type: 'text-end', id: '1' },
  { type: 'finish' },
]
const text = (delta: string) => ({ type: 'text-delta', id: '1', delta })
const limited = (limits: Partial<CallLimits> = {}) => ({
  clock: systemClock(),
  limits: { ...CALL_LIMITS, ...limits },
  assembler: createAssembler(MESSAGE),
  onChunk: () => undefined,
})

test('a stream that finishes becomes the message of its turn, and chunks after finish do not count', async () => {
  const chunks = [
    START,
    { type: 'start-step' },
    OPEN,
    text('Hel'),
    text('lo'),
    CLOSE,
    FINISH,
    { type: 'nonsense' },
  ]
  const shown: Chunk[] = []
  const onChunk = (chunk: Chunk) => void shown.push(chunk)
  const message = await callAgent({ ...limited(), onChunk }, saying(chunks), callWith('hi'))
  assert.deepEqual(shown, [{ ...START, messageId: MESSAGE }, ...chunks.slice(1, -1)], 'as readers see it')
  assert.deepEqual(message, {
    id: MESSAGE,
    role: 'assistant',
    parts: [{ type: 'step-start' }, { type: 'text', text: 'Hello', state: 'done' }],
  })
  assert.equal(
    await callAgent(limited(), saying([START, { type: 'start-step' }, FINISH]), callWith('hi')),
    undefined,
  )
})

test('an agent whose next chunk is always ready is not asked for more after a stop', async () => {
  const stop = new AbortController()
  let [asked, askedAtStop] = [0, 0]
  const chunks = [START, OPEN]
  const eager = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        asked += 1
        if (asked === 10) {
          stop.abort(new Error('stopped'))
          askedAtStop = asked
        }
        return { value: chunks[asked - 1] ?? text('word ') }
      },
    }),
  }
  const call = { ...callWith('hi'), signal: stop.signal }
  await assert.rejects(
    callAgent(
      limited(),
      agent('a', () => eager as never),
      call,
    ),
    /stopped/,
  )
  for (let n = 0; n < 10; n += 1) await yieldToEventLoop()
  assert.equal(asked, askedAtStop)
})

test('every stream that does not finish properly is a fault that says whether a retry may help', async () => {
  const whole = [START, OPEN, text('Hello'), CLOSE, FINISH]
  const cases: readonly (readonly [
    chunks: Chunks,
    code: string,
    isFinal: boolean,
    limits?: Partial<CallLimits>,
  ])[] = [
    [[], 'incomplete', false],
    [[START, OPEN, text('Hel')], 'incomplete', false],
    [[START, { type: 'error', errorText: 'overloaded' }], 'agent_error', false],
    [[START, { type: 'finish', finishReason: 'error' }], 'agent_error', false],
    [[START, { type: 'finish', finishReason: 'interrupted' }], 'agent_error', false],
    [[START, { type: 'error', errorText: 'fleetline:{"status":503}' }], 'agent_error', false],
    [[START, { type: 'error', errorText: 'fleetline:{"status":400}' }], 'agent_error', true],
    [
      [START, { type: 'error', errorText: 'fleetline:{"retryable":false,"status":503}' }],
      'agent_error',
      true,
    ],
    [[START, { type: 'error', errorText: 'fleetline:no JSON' }], 'agent_error', false],
    [[START, { type: 'abort', reason: 'out of time' }], 'agent_error', false],
    [[START, { type: 'abort' }, FINISH], 'agent_error', false],
    [[START, { type: 'tool-input-start' }], 'agent_protocol', true],
    [[START, { type: 'tool-output-denied', toolCallId: 'none' }], 'agent_protocol', true],
    [[START, text('too early')], 'agent_protocol', true],
    [[START, { type: 'data-big', data: 1n }], 'agent_protocol', true],
    [[START, OPEN, text('\0'), CLOSE, FINISH], 'agent_protocol', true],
    [whole, 'too_large', true, { chunks: 4 }],
    [[START, OPEN, OPEN, FINISH], 'too_large', true, { parts: 1 }],
    [[START, { ...FINISH, messageMetadata: { a: 1 } }], 'too_large', true, { metadataBytes: 6 }],
    [whole, 'too_large', true, { bytes: 100 }],
    [whole, 'too_large', true, { chunkBytes: 30 }],
    [whole, 'too_large', true, { messageBytes: 100 }],
    [
      [START, OPEN, ...Array<object>(50).fill(text('x'.repeat(100)))] as Chunks,
      'too_large',
      true,
      { messageBytes: 1_000 },
    ],
  ]
  for (const [chunks, code, isFinal, limits] of cases) {
    const fault = await callAgent(limited(limits), saying(chunks), callWith('hi')).catch(
      (error: unknown) => error,
    )
    assert.ok(fault instanceof AgentFault, inspect(chunks))
    assert.equal(fault.code, code, inspect(chunks))
    assert.equal(fault.isFinal, isFinal, inspect(chunks))
  }
  const throws = agent('a', () => {
    throw new RangeError('its own')
  })
  await assert.rejects(callAgent(limited(), throws, callWith('hi')), RangeError)
  const none = agent('a', () => undefined as never)
  await assert.rejects(callAgent(limited(), none, callWith('hi')), { code: 'agent_protocol' })
})

test('an endless stream that never waits is cut by its size, even after finish, and timers still run', async () => {
  let ticks = 0
  const timer = setInterval(() => (ticks += 1), 1)
  for (const first of [START, FINISH]) {
    const left = Promise.withResolvers<void>()
    let count = 0
    const endless = {
      next: () => ({ value: (count += 1) === 1 ? first : { type: 'start-step' } }), // no promise, as `for await` allows
      return: () => left.resolve(),
    }
    const odd = agent('a', () => ({ [Symbol.asyncIterator]: () => endless }) as never)
    const answered = callAgent(limited({ chunks: 5_000, parts: 1e9 }), odd, callWith('hi'))
    if (first === FINISH) assert.equal(await answered, undefined)
    else await assert.rejects(answered, { code: 'too_large' })
    await left.promise
  }
  clearInterval(timer)
  assert.ok(ticks > 1, `${ticks} ticks`)
})

test('a stream that breaks or does not end after finish has answered', async () => {
  const spoken = [START, OPEN, text('Hello'), CLOSE, FINISH]
  const left = Promise.withResolvers<void>()
  const breaking = agent('a', async function* () {
    yield* spoken
    throw new Error('broken')
  })
  const clock = manualClock()
  const hanging = agent('a', async function* ({ signal }) {
    yield* spoken
    yield { type: 'nonsense' }
    signal.addEventListener('abort', () => left.resolve())
    await new Promise(() => undefined)
  })
  assert.equal((await callAgent(limited(), breaking, callWith('hi')))?.parts.length, 1)
  let ignored = 0
  const around = { ...limited(), clock, onIgnored: () => void (ignored += 1) }
  const answered = callAgent(around, hanging, callWith('hi'))
  while (ignored === 0) await yieldToEventLoop()
  await clock.advance(CALL_LIMITS.tailMs)
  assert.equal((await answered)?.parts.length, 1)
  await left.promise

  const ending = new AbortController()
  ignored = 0
  const again = { ...around, assembler: createAssembler(MESSAGE) }
  const ended = callAgent(again, hanging, { ...callWith('hi'), signal: ending.signal })
  while (ignored === 0) await yieldToEventLoop()
  ending.abort(new Error('the pod stops'))
  assert.equal((await ended)?.parts.length, 1, 'a whole reply counts, whatever ends the call afterwards')
})

test('an error chunk counts, even if the stream then breaks or hangs', async () => {
  const said = { type: 'error', errorText: 'fleetline:{"status":429,"retryAfterMs":9000}' }
  const breaking = agent('a', async function* () {
    yield* [START, said]
    throw new Error('broken')
  })
  await assert.rejects(callAgent(limited(), breaking, callWith('hi')), {
    code: 'rate_limited',
    afterMs: 9_000,
  })
  const hanging = agent('a', async function* () {
    yield* [START, said]
    await new Promise(() => undefined)
  })
  const quick = limited({ tailMs: 1 })
  await assert.rejects(callAgent(quick, hanging, callWith('hi')), { code: 'rate_limited' })
})

test('a silent agent is aborted at its time limit, and the call ends even if the agent ignores that', async () => {
  for (const [spoken, waitMs] of [
    [[], CALL_LIMITS.firstMs],
    [[START], CALL_LIMITS.silenceMs],
  ] as const) {
    const clock = manualClock()
    const told = Promise.withResolvers<void>()
    const deaf = agent('a', async function* ({ signal }) {
      signal.addEventListener('abort', () => told.resolve())
      yield* spoken
      await new Promise(() => undefined)
    })
    const ended = callAgent({ ...limited(), clock }, deaf, callWith('hi'))
    ended.catch(() => undefined)
    await new Promise((resolve) => setImmediate(resolve))
    await clock.advance(waitMs)
    await assert.rejects(ended, { code: 'timeout' })
    await told.promise
  }
})

test('an agent that talks longer than a whole call may take is cut off', async () => {
  const clock = manualClock()
  const chatty = agent('a', async function* () {
    for (;;) {
      yield { type: 'start-step' }
      await clock.sleep(1_000)
    }
  })
  const whole = callAgent({ ...limited({ wholeMs: 5_000 }), clock }, chatty, callWith('hi'))
  whole.catch(() => undefined)
  await new Promise((resolve) => setImmediate(resolve))
  await clock.advance(5_000)
  await assert.rejects(whole, { message: 'The agent took too long' })
})

test('an agent that sends signs of life is not silent, and these are no chunks', async () => {
  const clock = manualClock()
  const thinking = agent('a', async function* () {
    for (let comments = 0; comments < 5; comments += 1) {
      yield LIFE
      await clock.sleep(50_000)
    }
    yield* [OPEN, text('Hello'), CLOSE, FINISH]
  })
  const thought = callAgent({ ...limited(), clock }, thinking, callWith('hi'))
  await new Promise((resolve) => setImmediate(resolve))
  await clock.advance(5 * 50_000)
  assert.equal((await thought)!.parts[0]!['text'], 'Hello')
})

test('the call of an agent that never answers ends at its time limit, or when the pod stops', async () => {
  const [clock, ending] = [manualClock(), new AbortController()]
  const never = agent('a', () => new Promise<never>(() => undefined))
  const unanswered = callAgent({ ...limited(), clock }, never, callWith('hi'))
  unanswered.catch(() => undefined)
  await new Promise((resolve) => setImmediate(resolve))
  await clock.advance(CALL_LIMITS.firstMs)
  await assert.rejects(unanswered, { code: 'timeout' })
  const ended = callAgent(limited(), never, { ...callWith('hi'), signal: ending.signal })
  ending.abort(new Error('the pod stops'))
  await assert.rejects(ended, /the pod stops/)
})

test('an agent reads a reply right after the last message that the reply answers', () => {
  const item = (seq: number, answers?: number) =>
    ({ seq, id: `m${seq}`, ...(answers === undefined ? {} : { answers }) }) as Item
  const log = [item(1), item(2), item(3, 1), item(4), item(5, 4), item(6)]
  assert.deepEqual(
    inOrder(log).map(({ seq }) => seq),
    [1, 3, 2, 4, 5, 6],
  )
})

test('S35: the agent is not asked for a summary of messages that were erased before its call; the compaction starts over', async () => {
  const [clock, random, cell] = [manualClock(), systemRandom(), 0]
  const compaction = { session: UUID, epoch: 1, agent: 'a', title: null, metadata: null, summarised: 0 }
  const opened = { ...compaction, eraseCount: 0, summary: null, ageMs: 0 }
  const items = [{ seq: 1, id: 'm1', role: 'user', parts: [], author: { kind: 'user' }, at: '' }]
  const abort = () => new AbortController()
  const outcomeWith = async (eraseCounts: readonly number[]) => {
    const counts = [...eraseCounts]
    const calls: string[] = []
    const readLog = async () => ({ items, eraseCount: counts.shift() })
    const compacting = agent('a', () => saying([]).answer(callWith('')), {
      compact: async () => (calls.push('called'), 'short'),
    })
    const deps = {
      clock,
      random,
      cell,
      database: { transaction: async () => ({ type: 'committed', value: opened }) },
      sessions: {
        read: readLog,
        readConversation: readLog,
        endCompaction: async () => ({ type: 'ended' }),
      },
      agents: { agentFor: async () => ({ ...compacting, downstream: 'a' }) },
    }
    const [ending, signal] = [abort(), abort().signal]
    const around = {
      clock,
      random,
      cell,
      pod: 1,
      log: silentLog(),
      isFenced: () => false,
      ending,
      draining: signal,
      gaveUp: signal,
      permits: {
        run: async (_: string, body: (permitted: object) => Promise<string>) => {
          await clock.advance(1_000)
          return body({ signal: abort().signal })
        },
      },
    }
    const claim = {
      id: UUID,
      tenant: 1,
      attempt: 1,
      spent: 1,
      input: { session: SESSION, through: 1, budget: { tokenBudget: 1e3, triggerRatio: 0.7 } },
    }
    const [machine] = createCompactMachines(deps as unknown as Parameters<typeof createCompactMachines>[0])
    const end = await machine!.open().run(...([claim, around] as unknown as Parameters<Runner['run']>))
    return [end.type, ...calls]
  }
  assert.deepEqual(await outcomeWith([1]), ['later'], 'between its two reads')
  assert.deepEqual(await outcomeWith([0, 1]), ['later'], 'while it waited')
  assert.deepEqual(await outcomeWith([0, 0]), ['done', 'called'])
})

test('a window keeps the last messages by number and by size', () => {
  const items = [1, 2, 3, 4].map(
    (seq) =>
      ({ seq, id: 'm', role: 'user', parts: [{ type: 'text', text: 'x'.repeat(100) }] }) as unknown as Item,
  )
  const seqsOf = (window: { messages: number; bytes: number }, from: number) =>
    cutToWindow(items, window, ({ seq }) => seq >= from).map(({ seq }) => seq)
  assert.deepEqual(seqsOf({ messages: 2, bytes: 10_000 }, 4), [3, 4])
  assert.deepEqual(seqsOf({ messages: 9, bytes: 10_000 }, 4), [1, 2, 3, 4])
  assert.deepEqual(seqsOf({ messages: 9, bytes: 350 }, 4), [3, 4], 'each has about 150 bytes')
  assert.deepEqual(seqsOf({ messages: 1, bytes: 1 }, 3), [3, 4], 'what asks for the reply is kept')
})

test('the demo agent echoes word by word, and obeys the words long, slow, fail and think', async () => {
  const speech = async (said: string, attempt = 1) => {
    const clock = manualClock()
    const stream = await demoAgent({ clock }).answer(callWith(said, { attempt }))
    const assembler = createAssembler('m')
    let [deltas, last] = [0, '']
    const reading = (async () => {
      for await (const chunk of stream) {
        assembler.push(chunkOf(chunk))
        if (chunk.type === 'text-delta') deltas += 1
        last = chunk.type
      }
      return last === 'finish'
    })()
    const firstMs = async () => {
      for (let ms = 0; ; ms += 100) {
        await new Promise((resolve) => setImmediate(resolve))
        if (assembler.message().parts.length > 0) return ms
        await clock.advance(100)
      }
    }
    const silentMs = await firstMs()
    const startMs = clock.monotonicMs()
    while (clock.sleepers > 0) {
      await clock.advance(100)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.ok(await reading)
    const { parts } = assembler.message()
    const spoken = parts.at(-1)!['text'] as string
    const kinds = parts.map(({ type }) => type)
    return { spoken, kinds, deltas, silentMs, tookMs: clock.monotonicMs() - startMs }
  }
  const echo = await speech('hello  there')
  assert.equal(echo.spoken, 'You said: hello  there')
  assert.equal(echo.deltas, 4)
  assert.equal(echo.silentMs, 0)
  const long = await speech('write a LONG poem')
  assert.ok(long.tookMs >= 55_000 && long.tookMs <= 65_000, `${long.tookMs} ms`)
  assert.equal((await speech('write a LONG poem', 2)).spoken, long.spoken, 'every attempt says the same')
  assert.equal((await speech('be slow')).silentMs, 20_000)
  const { answer } = demoAgent({ clock: manualClock() })
  for (const attempt of [1, 2]) assert.throws(() => answer(callWith('fail', { attempt })), /asked to fail/)
  assert.equal((await speech('fail', 3)).spoken, 'You said: fail')
  const thought = await speech('think about it')
  assert.deepEqual(thought.kinds, ['reasoning', 'text'])
  assert.match(thought.spoken, /\| PostgreSQL \|/)
})

test('two agents of one name are rejected, but the demo agent gives way to another', () => {
  const [one, two] = [saying([]), saying([])]
  assert.throws(() => agentsOf([one, two]), /Two agents are defined as a/)
  const [own, demo]: AgentDefinition[] = [agent('demo', one.answer), demoAgent({ clock: manualClock() })]
  assert.equal(agentsOf([own!], [demo!]).get('demo'), own)
  assert.throws(() => agent('no name', one.answer), /must match/)
})
