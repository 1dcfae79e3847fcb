// Replies as AG-UI events, and AG-UI events as replies, over random streams. AG-UI's own schemas and its own client judge what we send, and
// write what we take.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chunkOf, createAssembler, type Chunk } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { json, legalStream } from '../../../protocol/test/support/streams.ts'
import { createEventsToChunks } from '../../src/ag-ui/events-to-chunks.ts'
import { lastState } from '../../src/ag-ui/state-and-activities.ts'
import { createChunksToEvents } from '../../src/ag-ui/chunks-to-events.ts'
import { messagesForAgent } from '../../src/ag-ui/messages.ts'
import { createReaderMessages } from '../../src/ag-ui/reader-messages.ts'
import { faultsOf, readByAgUi } from '../support/ag-ui.ts'
import { anyEvents, closing, type AgUiEvent } from '../support/ag-ui-events.ts'

const RUN = { threadId: 't', runId: 'r' }

function eventsOf(stream: readonly Chunk[]) {
  const writer = createChunksToEvents('m')
  return [...stream.flatMap(writer.write), ...writer.close()]
}

test('every event is valid, in an order that the client of AG-UI accepts, and it has the messages that we believe', async () => {
  await fc.assert(
    fc.asyncProperty(legalStream, async (stream) => {
      const events = eventsOf(stream.filter(({ type }) => type !== 'reset-step'))
      const readerMessages = createReaderMessages()
      events.forEach(readerMessages.take)
      const all = [{ type: 'RUN_STARTED', ...RUN }, ...events, { type: 'RUN_FINISHED', ...RUN }]
      assert.deepEqual(all.flatMap(faultsOf), [])
      const read = await readByAgUi(all)
      assert.deepEqual([read.error, read.warnings], [undefined, []])
      assert.deepEqual(json(read.messages), json(readerMessages.messages()))
    }),
    { numRuns: 200 },
  )
})

type Verdict = { readonly chunks: readonly Chunk[]; readonly error?: unknown }

function chunksOf(events: readonly AgUiEvent[]): Verdict {
  const reader = createEventsToChunks({ runId: 'r', state: {}, messages: [] })
  const chunks: Chunk[] = []
  try {
    for (const event of events) chunks.push(...reader.take(event))
    return { chunks }
  } catch (error) {
    return { chunks, error }
  }
}

type Said = { readonly role: string; readonly [field: string]: unknown }

/** What a conversation says, by kind: AG-UI and a reply group it otherwise. A text that grows again after its end becomes two texts. */
function saidIn(messages: readonly Said[], isReopened: boolean) {
  const textsOf = (wanted: string) => {
    const text = messages
      .map(({ role, content }) => (role === wanted && typeof content === 'string' ? content : ''))
      .join('')
    return isReopened ? [...text].toSorted().join('') : text
  }
  const calls = messages.flatMap(({ toolCalls }) => (toolCalls ?? []) as ToolCall[])
  const results = messages.filter(
    ({ role, toolCallId }) => role === 'tool' && calls.some(({ id }) => id === toolCallId),
  )
  const activities = messages.filter(({ role }) => role === 'activity')
  return json({
    texts: textsOf('assistant'),
    reasonings: textsOf('reasoning'),
    calls: calls
      .map(({ id, function: { name, arguments: text } }) => `${id} ${name} ${argumentsIn(text)}`)
      .toSorted(),
    results: results.map(({ toolCallId, content }) => JSON.stringify([toolCallId, content])).toSorted(),
    activities: activities
      .map(({ activityType, content }) => JSON.stringify([activityType, content]))
      .toSorted(),
  })
}

function hasTwice(chunks: readonly Chunk[]): boolean {
  return new Set(chunks.map((chunk) => JSON.stringify(chunk))).size < chunks.length
}

function argumentsIn(text: string): string {
  try {
    return text.trim() === '' ? '{}' : JSON.stringify(JSON.parse(text))
  } catch {
    return text
  }
}

type ToolCall = {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}

test('an agent that answers with AG-UI events is read as the client of AG-UI reads it, and refused where that refuses it', async () => {
  const count = { accepted: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(anyEvents, async (events) => {
      const all = [
        { type: 'RUN_STARTED', ...RUN },
        ...events,
        ...closing(events),
        { type: 'RUN_FINISHED', ...RUN },
      ]
      const read = await readByAgUi(all)
      const { chunks, error } = chunksOf(all)
      assert.equal(
        error === undefined,
        read.error === undefined,
        `ours: ${String(error)}, theirs: ${String(read.error)}`,
      )
      count[error === undefined ? 'accepted' : 'refused'] += 1
      if (error !== undefined) return
      const assembler = createAssembler('m')
      for (const chunk of chunks) assembler.push(chunkOf(json(chunk)))
      const message = assembler.message()
      const isReopened = hasTwice(chunks.filter(({ type }) => /^(?:text|reasoning)-start$/.test(type)))
      assert.deepEqual(saidIn(messagesForAgent(message), isReopened), saidIn(read.messages, isReopened))
      const state = lastState([message])
      assert.deepEqual(state === undefined ? {} : state, read.state)
    }),
    { numRuns: 200 },
  )
  assert.ok(count.accepted > 20 && count.refused > 20, JSON.stringify(count))
})

test('mutant: a reader that is told of no results does not have the messages that we believe', async () => {
  const stream = [
    { type: 'tool-input-available', toolCallId: 'c', toolName: 'weather', input: {} },
    { type: 'tool-output-available', toolCallId: 'c', output: 'sunny' },
  ].map(chunkOf)
  const readerMessages = createReaderMessages()
  const events = eventsOf(stream)
  events.forEach(readerMessages.take)
  const { messages } = await readByAgUi([
    { type: 'RUN_STARTED', ...RUN },
    ...events.filter(({ type }) => type !== 'TOOL_CALL_RESULT'),
    { type: 'RUN_FINISHED', ...RUN },
  ])
  assert.notDeepEqual(json(messages), json(readerMessages.messages()))
})
