// What is kept of a reply that was stopped or has failed. Whatever was open in it, the model of the next turn accepts it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAssembler, type Chunk, type Message } from '@fleetline/protocol'
import { convertToModelMessages, type UIMessage } from 'ai'
import { draftOfSaid } from '../../src/session/partial.ts'

const start = (toolCallId: string) => ({ type: 'tool-input-start' as const, toolCallId, toolName: 'x' })
const delta = (toolCallId: string, inputTextDelta: string): Chunk => ({
  type: 'tool-input-delta',
  toolCallId,
  inputTextDelta,
})
const ready = (toolCallId: string): Chunk => ({
  ...start(toolCallId),
  type: 'tool-input-available',
  input: 1,
})
const ask = (toolCallId: string, approvalId = toolCallId): Chunk => ({
  type: 'tool-approval-request',
  toolCallId,
  approvalId,
})
const decide = (approvalId: string, approved: boolean): Chunk => ({
  type: 'tool-approval-response',
  approvalId,
  approved,
})

function kept(stream: readonly Chunk[]): Message | undefined {
  const assembler = createAssembler('m')
  stream.forEach(assembler.push)
  const draft = draftOfSaid(assembler, 'demo')
  return draft && { id: draft.id, role: 'assistant', ...(JSON.parse(draft.body) as Pick<Message, 'parts'>) }
}

test('in a kept reply every call has ended and every text is done, without half a character', async () => {
  const message = kept([
    { type: 'text-start', id: '1' },
    { type: 'text-start', id: '1' },
    { type: 'text-delta', id: '1', delta: 'so far \ud83d' },
    { type: 'text-start', id: '2' },
    { ...start('early'), dynamic: true },
    ready('twice'),
    { type: 'start-step' },
    ...['ready', 'asked', 'asked too', 'agreed', 'refused', 'done'].map(ready),
    { ...start('twice'), dynamic: true },
    start('streaming'),
    delta('streaming', '{"city":"Be'),
    { ...start('text'), inputEncoding: 'text' },
    delta('text', '\ud83d'),
    ask('asked'),
    ask('asked too', 'asked'),
    ask('agreed'),
    ask('refused'),
    decide('agreed', true),
    decide('refused', false),
    { type: 'tool-output-available', toolCallId: 'done', output: 2 },
  ])
  const told = message!.parts.map((part) => ({
    what: part['toolCallId'] ?? part['text'],
    state: part['state'],
    input: part['input'],
  }))
  assert.deepEqual(told, [
    { what: '', state: 'done', input: undefined },
    { what: 'so far ', state: 'done', input: undefined },
    { what: '', state: 'done', input: undefined },
    { what: 'early', state: 'output-error', input: {} },
    { what: 'twice', state: 'output-error', input: 1 },
    { what: undefined, state: undefined, input: undefined },
    { what: 'ready', state: 'output-error', input: 1 },
    { what: 'asked', state: 'output-denied', input: 1 },
    { what: 'asked too', state: 'output-denied', input: 1 },
    { what: 'agreed', state: 'output-error', input: 1 },
    { what: 'refused', state: 'output-denied', input: 1 },
    { what: 'done', state: 'output-available', input: 1 },
    { what: 'twice', state: 'output-error', input: {} },
    { what: 'streaming', state: 'output-error', input: { city: 'Be' } },
    { what: 'text', state: 'output-error', input: {} },
  ])
  const prompt = await convertToModelMessages([message as unknown as UIMessage])
  const types = prompt.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.map(({ type }) => type),
  )
  const count = (type: string) => types.filter((one) => one === type).length
  assert.equal(count('tool-call'), 11)
  assert.equal(count('tool-result'), 11, 'each call has a result, because models require one')
})

test('a reply without content, or with content that cannot be stored, is not kept', () => {
  assert.equal(kept([{ type: 'start' }, { type: 'start-step' }, { type: 'text-start', id: '1' }]), undefined)
  assert.equal(kept([{ type: 'data-x', data: '\0' }]), undefined)
  assert.equal(kept([{ type: 'data-x', data: 'x'.repeat(5_000_000) }]), undefined)
})
