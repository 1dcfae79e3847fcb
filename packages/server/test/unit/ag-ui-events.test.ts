// AG-UI events of agents that do what others do not: snapshots instead of streams, ids that come again, runs of another name, hostile
// documents.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChunkError, createAssembler, type Chunk } from '@fleetline/protocol'
import { createEventsToChunks } from '../../src/ag-ui/events-to-chunks.ts'

const RUN = { threadId: 't', runId: 'r' }
const STARTED = { type: 'RUN_STARTED', ...RUN }
const FINISHED = { type: 'RUN_FINISHED', ...RUN }

function read(events: readonly object[], messages: readonly string[] = []) {
  const reader = createEventsToChunks({ runId: 'r', state: {}, messages })
  const chunks: Chunk[] = []
  for (const event of events) chunks.push(...reader.take(event))
  chunks.push(...(reader.end() ?? []))
  const assembler = createAssembler('m')
  chunks.forEach(assembler.push)
  return { types: chunks.map(({ type }) => type), parts: assembler.message().parts, chunks }
}
const texts = (parts: readonly { readonly type: string; readonly text?: unknown }[]) =>
  parts.flatMap(({ type, text }) => (type === 'text' ? [text] : []))
const snapshot = (...messages: object[]) => ({ type: 'MESSAGES_SNAPSHOT', messages })
const user = { id: 'u', role: 'user', content: 'hi' }
const assistant = (id: string, content: string) => ({ id, role: 'assistant', content })

test('an agent that sends snapshots after each step says each message once, and none of the history', () => {
  const { parts } = read(
    [
      STARTED,
      snapshot(user, assistant('old', 'An old reply.'), assistant('a', 'One.')),
      snapshot(user, assistant('old', 'An old reply.'), assistant('a', 'One.'), assistant('b', 'Two.')),
      FINISHED,
    ],
    ['u', 'old'],
  )
  assert.deepEqual(texts(parts), ['One.', 'Two.'])
})

test('an agent that has streamed its reply may restate it under other ids', () => {
  const streamed = [
    { type: 'TEXT_MESSAGE_START', messageId: 'a' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: 'a', delta: 'One.' },
    { type: 'TEXT_MESSAGE_END', messageId: 'a' },
  ]
  const { parts } = read([STARTED, ...streamed, snapshot(user, assistant('b', 'One.')), FINISHED], ['u'])
  assert.deepEqual(texts(parts), ['One.'])
})

test('an agent that sends snapshots and then streams may restate all of it', () => {
  const streamed = [
    { type: 'TEXT_MESSAGE_START', messageId: 'b' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: 'b', delta: 'Two.' },
    { type: 'TEXT_MESSAGE_END', messageId: 'b' },
  ]
  for (const id of ['b', 'another id']) {
    const last = snapshot(user, assistant('a', 'One.'), assistant(id, 'Two.'))
    const { parts } = read(
      [STARTED, snapshot(user, assistant('a', 'One.')), ...streamed, last, FINISHED],
      ['u'],
    )
    assert.deepEqual(texts(parts), ['One.', 'Two.'])
  }
})

test('an id of a call that has its result stands for a new call', () => {
  const call = [
    { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'weather' },
    { type: 'TOOL_CALL_END', toolCallId: 'c' },
    { type: 'TOOL_CALL_RESULT', messageId: 'r', toolCallId: 'c', content: 'sunny' },
  ]
  const { parts } = read([STARTED, ...call, ...call, FINISHED])
  const calls = parts.filter(({ type }) => type === 'dynamic-tool')
  assert.deepEqual(
    calls.map(({ state }) => state),
    ['output-available', 'output-available'],
  )
  assert.equal(new Set(calls.map(({ toolCallId }) => toolCallId)).size, 2)
})

test('a run of another name that says no word ends the reply if none follows, and is a replay if one does', () => {
  const other = { threadId: 't', runId: 'of the past' }
  const replayed = [
    { type: 'RUN_STARTED', ...other },
    { type: 'STATE_SNAPSHOT', snapshot: { a: 1 } },
    { type: 'RUN_FINISHED', ...other },
  ]
  assert.deepEqual(read(replayed).types, ['start', 'data-ag-ui-state', 'finish'])
  const { types } = read([...replayed, STARTED, FINISHED])
  assert.equal(types.filter((type) => type === 'finish').length, 1)
})

test('a run of another name that says no word is refused, cancelled or counted as any other', () => {
  const other = { threadId: 't', runId: 'own' }
  const run = (end: object) =>
    read([
      { type: 'RUN_STARTED', ...other },
      { type: 'RUN_FINISHED', ...other, ...end },
    ])
  assert.throws(() => run({ outcome: { type: 'interrupt' } }), /waits for an answer to an interrupt/)
  assert.equal(run({ outcome: { type: 'cancelled' } }).types.at(-1), 'abort')
  const { types } = run({ usage: [{ model: 'm', inputTokens: 1, outputTokens: 2 }] })
  assert.deepEqual(types, ['start', 'message-metadata', 'finish'])
})

test('many small activities that change often are within the limits', () => {
  const show = (messageId: string) => ({
    type: 'ACTIVITY_SNAPSHOT',
    messageId,
    activityType: 'plan',
    content: { text: '' },
  })
  const change = (messageId: string) => ({
    type: 'ACTIVITY_DELTA',
    messageId,
    activityType: 'plan',
    patch: [{ op: 'replace', path: '/text', value: 'x'.repeat(2_000) }],
  })
  const ids = Array.from({ length: 30 }, (_, n) => `a${n}`)
  const changes = Array.from({ length: 200 }, () => ids.map(change)).flat()
  assert.equal(read([STARTED, ...ids.map(show), ...changes, FINISHED]).types.at(-1), 'finish')
})

test('what an agent keeps with its reader is limited, however it grows', () => {
  const copies = Array.from({ length: 40 }, (_, n) => ({ op: 'copy', from: '', path: `/${n}` }))
  const growing = (messageId: string) => [
    { type: 'ACTIVITY_SNAPSHOT', messageId, activityType: 'plan', content: { text: 'x'.repeat(200_000) } },
    { type: 'ACTIVITY_DELTA', messageId, activityType: 'plan', patch: copies },
  ]
  const many = Array.from({ length: 30 }, (_, n) => growing(`a${n}`)).flat()
  assert.throws(() => read([STARTED, ...many]), ChunkError)
  const named = (round: number) =>
    Array.from({ length: 1_000 }, (_, n) => ({
      op: 'add',
      path: `/${round}${'x'.repeat(200)}${n}`,
      value: 0,
    }))
  const rounds = Array.from({ length: 10 }, (_, round) => ({ type: 'STATE_DELTA', delta: named(round) }))
  assert.throws(() => read([STARTED, ...rounds]), /exceeds 262144 characters/, 'names of fields count, too')
  const deep = Array.from({ length: 70 }, (_, n) => ({ op: 'add', path: '/a'.repeat(n + 1), value: {} }))
  const { chunks } = read([STARTED, { type: 'STATE_DELTA', delta: deep }, FINISHED])
  assert.ok(
    !chunks.some(({ type }) => type === 'data-ag-ui-state'),
    'a patch that nests too deep does not apply',
  )
})

test('an agent cannot use reserved part names', () => {
  const { chunks } = read([
    STARTED,
    { type: 'CUSTOM', name: 'usage', value: { usage: { inputTokens: 1 } } },
    { type: 'ACTIVITY_SNAPSHOT', messageId: 'state', activityType: 'ag-ui-state', content: {} },
    FINISHED,
  ])
  assert.ok(!chunks.some(({ type }) => type === 'data-usage' || type === 'data-ag-ui-state'))
})

test('an error shows the wrong value, and says what to do apart from what it quotes', () => {
  const list = { type: 'MESSAGES_SNAPSHOT', messages: [user, 'x'] }
  const faults: readonly (readonly [event: object, fault: RegExp, remedy?: string])[] = [
    [{ type: 'TEXT_MESSAGE_START', messageId: 'a', role: 'tool' }, /role must be .*, but it is "tool"$/],
    [{ ...FINISHED, outcome: [] }, /outcome must be an object, but it is an array$/],
    [{ type: 'TOOL_CALL_END', toolCallId: null }, /toolCallId must be a string, but it is null$/],
    [{ type: 'TOOL_CALL_END', toolCallId: {} }, /must be a string, but it is an object$/],
    [{ type: 'TOOL_CALL_END', toolCallId: 1 }, /must be a string, but it is a number$/],
    [{ type: 'STATE_SNAPSHOT' }, /snapshot must be any JSON value, but it is missing$/],
    [list, /messages must be an array of objects, but it contains an entry that is not an object$/],
    [{ ...STARTED, runId: 'b' }, /the run r has not ended\. Send/, 'Send RUN_FINISHED first'],
    [
      { type: 'TOOL_CALL_END', toolCallId: 'a. b' },
      /no call a\. b is open\. Send/,
      'Send TOOL_CALL_START first, with the same toolCallId',
    ],
    [
      { type: 'STATE_SNAPSHOT', snapshot: 'x'.repeat(300_000) },
      /^STATE_SNAPSHOT: the state exceeds 262144 characters of JSON\. Send less$/,
      'Send less',
    ],
  ]
  for (const [event, message, remedy] of faults)
    assert.throws(() => read([STARTED, event]), { name: 'ChunkError', message, remedy })
})
