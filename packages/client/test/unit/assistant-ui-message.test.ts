// A message as assistant-ui shows it, checked with the function by which assistant-ui itself reads messages.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromThreadMessageLike } from '@assistant-ui/core'
import type { Id, Part, Turn } from '@fleetline/protocol'
import { threadMessageOf } from '../../src/assistant-ui-message.ts'
import type { Message } from '../../src/view.ts'
import { AT, messageOf, replyOf, textOf, turnOf } from '../support/assistant-ui.ts'

const shown = (message: Message, turn: Turn | null = null) => threadMessageOf(message, turn)

/** assistant-ui's own reading of a message changes nothing in ours. */
function assertLegal(message: Message): void {
  const ours = shown(message)
  const theirs = fromThreadMessageLike(ours, 'fallback', { type: 'running' })
  assert.deepEqual(theirs, ours)
}

const call = (state: string, more: object = {}): Part => ({
  type: 'tool-look',
  toolCallId: 'c1',
  state,
  ...more,
})
const CALLED = { type: 'tool-call', toolCallId: 'c1', toolName: 'look' }
const ROME = { args: { at: 'Rome' }, argsText: '{"at":"Rome"}' }
const DONE = { input: { at: 'Rome' } }

const REPLIES: readonly (readonly [Part, object | null])[] = [
  [
    { type: 'text', text: 'Ciao', state: 'done' },
    { type: 'text', text: 'Ciao' },
  ],
  [{ type: 'text', text: ' \n' }, null],
  [
    { type: 'reasoning', text: 'Hm', id: '1', state: 'done' },
    { type: 'reasoning', text: 'Hm' },
  ],
  [{ type: 'reasoning', text: '' }, null],
  [{ type: 'step-start' }, null],
  [
    { type: 'file', mediaType: 'image/png', url: 'https://x.example/a.png', filename: 'a.png' },
    { type: 'image', image: 'https://x.example/a.png', filename: 'a.png' },
  ],
  [
    { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AA==' },
    { type: 'image', image: 'data:image/png;base64,AA==' },
  ],
  [
    { type: 'file', mediaType: 'image/png', url: 'http://x.example/a.png' },
    { type: 'file', data: 'http://x.example/a.png', mimeType: 'image/png', sourceType: 'url' },
  ],
  [
    { type: 'reasoning-file', mediaType: 'application/pdf', url: 'https://x.example/a.pdf' },
    { type: 'file', data: 'https://x.example/a.pdf', mimeType: 'application/pdf', sourceType: 'url' },
  ],
  [
    { type: 'source-url', sourceId: 's1', url: 'https://x.example', title: 'X' },
    { type: 'source', sourceType: 'url', id: 's1', url: 'https://x.example', title: 'X' },
  ],
  [
    { type: 'source-document', sourceId: 's2', title: 'D', mediaType: 'text/plain', filename: 'd.txt' },
    {
      type: 'source',
      sourceType: 'document',
      id: 's2',
      title: 'D',
      mediaType: 'text/plain',
      filename: 'd.txt',
    },
  ],
  [
    { type: 'data-weather', id: 'w', data: { degrees: 20 } },
    { type: 'data', name: 'weather', data: { degrees: 20 } },
  ],
  [
    call('input-streaming', { input: { at: 'Ro' }, rawInput: '{"at": "Ro' }),
    { ...CALLED, args: { at: 'Ro' }, argsText: '{"at": "Ro' },
  ],
  [call('input-streaming'), { ...CALLED, args: {}, argsText: '' }],
  [call('input-available', DONE), { ...CALLED, ...ROME }],
  [call('input-available', { input: 'Rome' }), { ...CALLED, args: {}, argsText: '"Rome"' }],
  [call('approval-requested', { ...DONE, approval: { id: 'a1' } }), { ...CALLED, ...ROME }],
  [call('approval-responded', { ...DONE, approval: { id: 'a1', approved: true } }), { ...CALLED, ...ROME }],
  [call('output-available', { ...DONE, output: 20 }), { ...CALLED, ...ROME, result: 20 }],
  [call('output-available', { ...DONE, output: null }), { ...CALLED, ...ROME, result: null }],
  [call('output-available', DONE), { ...CALLED, ...ROME, result: null }],
  [
    call('output-error', { ...DONE, errorText: 'no such town' }),
    { ...CALLED, ...ROME, result: { error: 'no such town' }, isError: true },
  ],
  [
    call('output-error', { rawInput: '{"at', errorText: 'not JSON' }),
    { ...CALLED, args: {}, argsText: '"{\\"at"', result: { error: 'not JSON' }, isError: true },
  ],
  [
    call('output-denied', { ...DONE, approval: { id: 'a1', approved: false, reason: 'too far' } }),
    { ...CALLED, ...ROME, result: { error: 'too far' }, isError: true },
  ],
  [
    call('output-denied', DONE),
    { ...CALLED, ...ROME, result: { error: 'The call was denied.' }, isError: true },
  ],
  [
    { ...call('output-available', { ...DONE, output: 20 }), type: 'dynamic-tool', toolName: 'look' },
    { ...CALLED, ...ROME, result: 20 },
  ],
  ...[
    { type: 'custom', kind: 'x' },
    { type: 'steering-message', id: 's', parts: [] },
    { type: 'text', text: 5 },
    { type: 'file', url: 'https://x.example' },
    { type: 'source-url', sourceId: 's' },
    { type: 'tool-look' },
    { type: 'dynamic-tool', toolCallId: 'c' },
    { type: 'data-' },
  ].map((part) => [part, { type: 'data', name: part.type, data: part }] as const),
]

test('each part of a reply becomes a part that assistant-ui shows', () => {
  for (const [part, expected] of REPLIES) {
    const message = replyOf(2, [part])
    assert.deepEqual(shown(message).content, expected === null ? [] : [expected], JSON.stringify(part))
    assertLegal(message)
  }
})

test('a text that is being written says so, and another that is done meanwhile', () => {
  const parts = ['done', 'streaming'].map((state) => ({ type: 'text', text: state, state }))
  const open = replyOf(null, parts, { delivery: 'open' })
  const states = ['complete', 'running'].map((type) => ({ status: { type } }))
  assert.deepEqual(
    shown(open).content,
    parts.map(({ type, text }, n) => ({ type, text, ...states[n] })),
  )
  assertLegal(open)
})

test('two calls of one reply with the same id are two calls', () => {
  const message = replyOf(2, [call('input-available'), call('input-available'), call('input-available')])
  const ids = shown(message).content.map((part) => 'toolCallId' in part && part.toolCallId)
  assert.deepEqual(ids, ['c1', "c1'", "c1''"])
})

test('files of a user are attachments, everything else is content', () => {
  const message = messageOf(1, [
    { type: 'text', text: 'Look' },
    { type: 'file', mediaType: 'image/png', url: 'https://x.example/a.png' },
    { type: 'file', mediaType: 'text/plain', url: 'data:text/plain,hi', filename: 'hi.txt' },
    { type: 'data-place', data: 'Rome' },
    { type: 'reasoning', text: 'Hm' },
  ])
  const { content, ...rest } = shown(message)
  assert.deepEqual(content, [
    { type: 'text', text: 'Look' },
    { type: 'data', name: 'place', data: 'Rome' },
    { type: 'data', name: 'reasoning', data: { type: 'reasoning', text: 'Hm' } },
  ])
  assert.deepEqual('attachments' in rest && rest.attachments.map(({ id, type, name }) => [id, type, name]), [
    ['0', 'image', 'image'],
    ['1', 'file', 'hi.txt'],
  ])
  assertLegal(message)
})

test('a system message has one text', () => {
  const parts = [
    { type: 'text', text: 'Be' },
    { type: 'text', text: 'brief' },
  ]
  assert.deepEqual(shown(messageOf(1, parts, { role: 'system' })).content, textOf('Be\n\nbrief'))
  assertLegal(messageOf(2, [], { role: 'system', erased: true }))
})

test('a reply says whether it runs, is complete, was stopped, or failed and why', () => {
  const statusIn = (message: Message, turn: Turn | null = null) => {
    const ours = shown(message, turn)
    return ours.role === 'assistant' && ours.status
  }
  const statusOf = (more: Partial<Message>) => statusIn(replyOf(2, textOf('Ciao'), more))
  assert.deepEqual(statusOf({ delivery: 'open', seq: null }), { type: 'running' })
  assert.deepEqual(statusOf({}), { type: 'complete', reason: 'stop' })
  assert.deepEqual(statusOf({ status: 'stopped' }), { type: 'incomplete', reason: 'cancelled' })
  assert.deepEqual(statusOf({ status: 'failed' }), { type: 'incomplete', reason: 'error' })
  const failed = replyOf(2, textOf('Ciao'), { status: 'failed', id: 'msg_1' })
  assert.deepEqual(statusIn(failed), { type: 'incomplete', reason: 'error' })
  const error = { code: 'agent_failed', message: 'The agent broke off.' }
  const why = { type: 'incomplete', reason: 'error', error: error.message }
  assert.deepEqual(statusIn(failed, turnOf({ state: 'failed', error })), why)
  assert.deepEqual(
    statusIn(failed, turnOf({ message: 'msg_2' as Id<'message'> })),
    why,
    'a later turn leaves it',
  )
})

test('metadata, delivery and the message itself are in `custom`, and times are those of the log', () => {
  const message = messageOf(1, textOf('Ciao'), { metadata: { topic: 'trip', fleetline: 'no' } })
  const { metadata, createdAt } = shown(message)
  assert.deepEqual(metadata.custom, { topic: 'trip', fleetline: message })
  assert.deepEqual(createdAt, new Date(AT))
  const turn = turnOf({ message: 'mnew' as Id<'message'> })
  assert.deepEqual(
    shown(replyOf(null, textOf('Hm'), { delivery: 'open' }), turn).createdAt,
    new Date(turn.startedAt),
  )
})
