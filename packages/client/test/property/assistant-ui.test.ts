// Random messages in assistant-ui. Members and agents may send any JSON as a part. Whatever it is:
//   assistant-ui's own function reads every message, and changes nothing in it
//   its runtime shows what the session shows, with one branch each, whatever came before
//   an edit that changes nothing sends the texts and files that were there
// The broken case at the end shows that the runtime would not do this by itself.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromThreadMessageLike, type ExternalStoreAdapter } from '@assistant-ui/core'
import type { Part } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { inputOf } from '../../src/assistant-ui-input.ts'
import { threadMessageOf } from '../../src/assistant-ui-message.ts'
import { toExternalStore, type ShownSession } from '../../src/assistant-ui.ts'
import type { Message, Status } from '../../src/view.ts'
import { messageOf, runtimeOf, turnOf, type RuntimeInTest } from '../support/assistant-ui.ts'

const TYPES = [
  'text',
  'reasoning',
  'file',
  'reasoning-file',
  'source-url',
  'source-document',
  'step-start',
  'dynamic-tool',
  'tool-look',
  'tool-',
  'data-place',
  'custom',
] as const
const STATES = [
  'streaming',
  'done',
  'input-streaming',
  'input-available',
  'approval-requested',
  'approval-responded',
  'output-available',
  'output-error',
  'output-denied',
] as const
const word = fc.constantFrom(
  '',
  ' ',
  'look',
  'https://x.example/a',
  'data:image/png;base64,AA==',
  'image/png',
)
const field = fc.oneof(
  { weight: 4, arbitrary: word },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 1 }) },
)
const parts: fc.Arbitrary<readonly Part[]> = fc.array(
  fc
    .record(
      {
        type: fc.oneof(fc.constantFrom(...TYPES), fc.string({ minLength: 1, maxLength: 9 })),
        state: fc.constantFrom(...STATES),
        text: field,
        url: field,
        mediaType: field,
        filename: field,
        sourceId: field,
        title: field,
        toolCallId: fc.constantFrom('1', '2', "1'"),
        toolName: field,
        input: fc.jsonValue({ maxDepth: 2 }),
        rawInput: field,
        output: fc.jsonValue({ maxDepth: 2 }),
        errorText: field,
        approval: fc.oneof(fc.record({ id: word, approved: fc.boolean(), reason: field }), fc.jsonValue()),
        data: fc.jsonValue({ maxDepth: 2 }),
      },
      { requiredKeys: ['type'] },
    )
    .map((part) => part as Part),
  { maxLength: 6 },
)
/** Few ids, so that messages return, change, and move. */
const messages: fc.Arbitrary<readonly Message[]> = fc.uniqueArray(
  fc
    .record({
      id: fc.constantFrom('a', 'b', 'c', 'd', 'msg_1'),
      role: fc.constantFrom('user', 'assistant', 'system'),
      parts,
      delivery: fc.constantFrom('pending', 'sent', 'failed', 'open'),
      status: fc.constantFrom(undefined, 'stopped', 'failed'),
    })
    .map(({ status, ...said }) => messageOf(1, said.parts, { ...said, ...(status && { status }) })),
  { selector: ({ id }) => id, maxLength: 5 },
)
const snapshots = fc.array(
  fc.record({
    messages,
    status: fc.constantFrom<Status>('idle', 'waiting', 'streaming', 'failed'),
    turn: fc.constantFrom(
      null,
      turnOf(),
      turnOf({ state: 'failed', endedAt: '2026-11-19T09:00:01.000Z', error: { code: 'x', message: 'x' } }),
    ),
  }),
  { minLength: 1, maxLength: 6 },
)
type Drawn = Pick<ShownSession, 'messages' | 'status' | 'turn'>

const unused = () => assert.fail('nobody acts')
const storeOf = (drawn: Drawn) =>
  toExternalStore({
    ...drawn,
    head: 1,
    loading: false,
    refusal: null,
    send: unused,
    stop: unused,
    regenerate: unused,
    edit: unused,
    discard: unused,
  })
/** Without a reply that has said nothing, which is ours or assistant-ui's. */
const idsIn = ({ messages }: RuntimeInTest, { messages: drawn }: Drawn) =>
  messages()
    .filter(({ id, content }) => content.length > 0 || drawn.some((one) => one.id === id))
    .map(({ id }) => id)

function assertShows(storeOf: (drawn: Drawn) => Parameters<typeof runtimeOf>[0], history: readonly Drawn[]) {
  const shown = runtimeOf(storeOf(history[0]!))
  for (const drawn of history) {
    shown.set(storeOf(drawn))
    assert.deepEqual(
      idsIn(shown, drawn),
      drawn.messages.map(({ id }) => id),
    )
    assert.ok(shown.branches().every((branches) => branches === 1))
  }
}

test('assistant-ui reads every message as it is', () => {
  fc.assert(
    fc.property(messages, (drawn) => {
      for (const message of drawn) {
        const ours = threadMessageOf(message, null)
        assert.deepEqual(fromThreadMessageLike(ours, 'fallback', { type: 'running' }), ours)
        assert.equal(threadMessageOf(message, null), ours)
      }
    }),
  )
})

test('its runtime shows what the session shows', () => {
  fc.assert(fc.property(snapshots, (history) => assertShows(storeOf, history)))
})

test('an edit that changes nothing sends the same texts and files', () => {
  const isKept = ({ type, text, url, mediaType, filename }: Part) =>
    type === 'text'
      ? typeof text === 'string'
      : type === 'file' &&
        [url, mediaType, filename].every((one) => typeof one === 'string' && one.includes('/'))
  fc.assert(
    fc.property(parts, (drawn) => {
      const kept = drawn
        .filter(isKept)
        .map(({ type, text, url, mediaType, filename }) =>
          type === 'text' ? { type, text } : { type, url, mediaType, filename },
        )
      const shown = threadMessageOf(messageOf(1, kept), null)
      assert.ok(shown.role === 'user')
      const sent = inputOf({ ...shown, parentId: null, sourceId: shown.id })
      const inOrder = [
        ...kept.filter(({ type }) => type === 'text'),
        ...kept.filter(({ type }) => type === 'file'),
      ]
      assert.deepEqual(typeof sent !== 'string' && sent.parts, inOrder)
    }),
  )
})

test('a plain list of messages breaks this', () => {
  const plain = ({ messages }: Drawn): ExternalStoreAdapter<Message> => ({
    messages,
    convertMessage: (message) => threadMessageOf(message, null),
    onNew: async () => undefined,
  })
  assert.throws(() => fc.assert(fc.property(snapshots, (history) => assertShows(plain, history))))
})
