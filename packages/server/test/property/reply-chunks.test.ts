// D4 D6: replies as streams of the AI SDK, over random streams of agents. They are split, sent again from the beginning, cut, begun anew by another
// attempt, stopped or failed. The AI SDK's own reducer makes the stored message of what is sent, or the stream is cut; a client that
// resumes then gets the stored message.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import {
  chunkOf,
  condense,
  createAssembler,
  hasContent,
  mergeDeltas,
  type Chunk,
  type Frame,
  type Id,
  type Item,
  type Part,
  type Turn,
} from '@fleetline/protocol'
import { readUIMessageStream } from 'ai'
import * as fc from 'fast-check'
import { json, left, legalStream } from '../../../protocol/test/support/streams.ts'
import { createReplyChunks, type ReplyChunks } from '../../src/gateway/chat/reply-chunks.ts'
import { draftOfSaid } from '../../src/session/partial.ts'
import { seenOf } from '../support/reply-frames.ts'

const MESSAGE = 'm' as Id<'message'> // the id that the AI SDK's reducer begins with
const NAMES = { session: 'ses_1' as Id<'session'>, turn: 'turn_1' as Id<'turn'> }
const TURN = {
  id: NAMES.turn,
  session: NAMES.session,
  message: MESSAGE,
  agent: 'a',
  epoch: 1,
  attempt: 1,
  answers: { from: 1, to: 1 },
  pod: null,
  waitsFor: null,
  startedAt: 'now',
  retryAt: null,
} as const

const plans = fc.record({
  lost: fc.option(
    legalStream.map((stream) => seenOf(stream, MESSAGE)),
    { nil: undefined },
  ), // what an earlier attempt has said
  stream: legalStream.map((stream) => seenOf(stream, MESSAGE)),
  sizes: fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 8 }),
  /** After how many frames the reader gets all again. */
  again: fc.option(fc.nat(4), { nil: undefined }),
  unseen: fc.constantFrom(0, 0, 0, 1, 3), // chunks that the reader does not get before the end
  unstored: fc.constantFrom(0, 0, 0, 1, 3), // chunks that were shown, but came too late to be stored with a stopped or failed reply
  state: fc.constantFrom('done' as const, 'done' as const, 'stopped' as const, 'failed' as const),
  knowsReset: fc.boolean(),
})
type Plan = typeof plans extends fc.Arbitrary<infer One> ? One : never

function framesOf(
  attempt: number,
  stream: readonly Chunk[],
  { sizes, again }: Pick<Plan, 'sizes' | 'again'>,
): Frame[] {
  const frames: Frame[] = []
  for (let [at, turn] = [0, 0]; at < stream.length; turn += 1) {
    const from = turn === again ? 0 : at
    const to = at + sizes[turn % sizes.length]!
    const piece = stream.slice(from, to)
    frames.push({
      type: 'chunks',
      ...NAMES,
      attempt,
      index: from,
      count: piece.length,
      chunks: mergeDeltas(piece),
    })
    at = to
  }
  return frames
}

function assembled(stream: readonly Chunk[]) {
  const assembler = createAssembler(MESSAGE)
  stream.forEach(assembler.push)
  return assembler
}

/** The message as it is stored; undefined if there is none. */
function storedOf({ stream, state, unstored }: Plan): Item | undefined {
  const said = assembled(state === 'done' ? stream : stream.slice(0, Math.max(0, stream.length - unstored)))
  const item = {
    seq: 2,
    id: MESSAGE,
    role: 'assistant',
    turn: NAMES.turn,
    author: { kind: 'agent' },
    at: 'now',
  } as const
  if (state === 'done') return hasContent(said.message()) ? { ...item, ...said.message() } : undefined
  const draft = draftOfSaid(said, 'a')
  return draft && { ...item, status: state, ...(JSON.parse(draft.body) as Pick<Item, 'parts' | 'metadata'>) }
}

/** What its chunks make of a message: some that no agent of the AI SDK writes cannot be said again. */
function again(item: Item) {
  const { parts, metadata } = assembled(condense(item).map(chunkOf)).message()
  return { parts, metadata }
}

function endOf({ state, lost }: Pick<Plan, 'state' | 'lost'>, item: Item | undefined): Frame[] {
  const error = state === 'failed' ? { code: 'x', message: 'It failed.' } : null
  const turn: Turn = { ...TURN, attempt: lost ? 2 : 1, state, endedAt: 'now', error }
  return [
    ...(item ? [{ type: 'messages', session: NAMES.session, items: [item], head: 2 } as const] : []),
    { type: 'turn', session: NAMES.session, turn },
  ]
}

function sentBy(reply: ReplyChunks, frames: readonly Frame[]) {
  const chunks: Chunk[] = []
  for (const frame of frames) {
    const sent = reply.take(frame)
    chunks.push(...sent.chunks)
    if (sent.end) return { chunks, end: sent.end }
  }
  return { chunks, end: undefined }
}

/** What the AI SDK makes of it, without an `error`, which ends its stream. */
async function readBySdk(chunks: readonly Chunk[]) {
  const { message, errors } = await left(chunks, readUIMessageStream)
  const wrong = errors.filter((error) => !(error instanceof Error && error.message === 'It failed.'))
  return { parts: json(message.parts), metadata: json(message.metadata ?? null), wrong }
}

/** Whether a page that shows this has all that is stored, and words that came too late. */
function isMore(shown: unknown, stored: readonly Part[]): boolean {
  const parts = shown as readonly Part[]
  const textOf = (part: Part | undefined) => (typeof part?.['text'] === 'string' ? part['text'] : '')
  return stored.every(
    (part, index) => parts[index]?.type === part.type && textOf(parts[index]).startsWith(textOf(part)),
  )
}

async function broken(
  plan: Plan,
  counts: Record<string, number>,
  create = createReplyChunks,
): Promise<string[]> {
  const { lost, stream, unseen, unstored, state, knowsReset } = plan
  const item = storedOf(plan)
  const wanted = {
    parts: json(item?.parts ?? []),
    metadata: json(item?.metadata ?? null),
    wrong: [],
  }
  const before = lost ? framesOf(1, lost, plan) : []
  const live = framesOf(lost ? 2 : 1, stream.slice(0, Math.max(0, stream.length - unseen)), plan)
  const frames = [...before, ...live, ...endOf(plan, item)]
  const options = { turn: 'turn_1', message: MESSAGE, knowsReset }
  const faults: string[] = []
  const isExact =
    !item || isDeepStrictEqual(json(again(item)), json({ parts: item.parts, metadata: item.metadata }))
  counts[isExact ? 'exact' : 'inexact'] = (counts[isExact ? 'exact' : 'inexact'] ?? 0) + 1
  if (!isExact) return []
  const check = async (name: string, { chunks, end }: ReturnType<typeof sentBy>, isLive = false) => {
    if (end === undefined) faults.push(`${name}: it does not end`)
    if (end !== 'whole') return
    const got = await readBySdk(chunks)
    const [start] = chunks
    if (start?.type !== 'start' || start.messageId !== MESSAGE)
      faults.push(`${name}: does not begin with start`)
    const isWanted = isDeepStrictEqual(got, wanted)
    if (isLive && item && unstored > unseen)
      counts[isWanted ? 'taken back' : 'more shown'] =
        (counts[isWanted ? 'taken back' : 'more shown'] ?? 0) + 1
    // a message that says nothing is not stored
    if (item && !isWanted && !(isLive && state !== 'done' && isMore(got.parts, item.parts)))
      faults.push(`${name}: ${JSON.stringify({ got, wanted, chunks })}`)
    const last = { done: 'finish', stopped: 'abort', failed: 'error' }[state]
    if (chunks.at(-1)?.type !== last) faults.push(`${name}: ends with ${chunks.at(-1)?.type}`)
  }
  const first = sentBy(create(options), frames)
  counts[`${state} ${first.end}`] = (counts[`${state} ${first.end}`] ?? 0) + 1
  if (lost && first.end === 'whole') counts['begun anew'] = (counts['begun anew'] ?? 0) + 1
  if (first.end === 'cut' && !lost && unseen === 0 && state === 'done') faults.push('cut for nothing')
  await check('live', first, true)
  const later = sentBy(create(options), endOf(plan, item))
  if (later.end !== 'whole') faults.push('a turn that is over is cut')
  await check('afterwards', later)
  return faults
}

test('D4 D6: what the AI SDK makes of the stream is what is stored, or the stream is cut and can be resumed', async () => {
  const counts: Record<string, number> = {}
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => assert.deepEqual(await broken(plan, counts), [])),
    { numRuns: 600 },
  )
  for (const what of ['done whole', 'stopped whole', 'failed whole', 'done cut', 'begun anew', 'taken back'])
    assert.ok(counts[what]! > 5, JSON.stringify(counts))
  assert.ok(counts['exact']! > 9 * counts['inexact']!, JSON.stringify(counts))
})

for (const knowsReset of [true, false])
  test(`D6: a stop whose last words are not stored ends with \`abort\`; a client that ${knowsReset ? 'knows `reset-step` shows' : 'does not know `reset-step` begins with'} what is stored`, async () => {
    const stream: Chunk[] = [
      { type: 'start', messageId: MESSAGE },
      { type: 'start-step' },
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'stored' },
      { type: 'text-delta', id: '1', delta: ' and too late' },
    ]
    const plan: Plan = {
      stream,
      unstored: 1,
      lost: undefined,
      sizes: [1],
      again: undefined,
      unseen: 0,
      state: 'stopped',
      knowsReset,
    }
    const item = storedOf(plan)
    const frames = [...framesOf(1, stream, plan), ...endOf(plan, item)]
    const sent = sentBy(createReplyChunks({ turn: 'turn_1', message: MESSAGE, knowsReset }), frames)
    assert.deepEqual([sent.end, sent.chunks.at(-1)!.type], ['whole', 'abort'])
    const { parts } = await readBySdk(sent.chunks)
    const [, { text }] = parts as [unknown, { text: string }]
    assert.equal(text, knowsReset ? 'stored' : 'stored and too late')
  })

test('a stored reply that chunks cannot say exactly is sent as near as they can, with its metadata', async () => {
  const call = { toolCallId: '1', toolName: 't', input: {}, errorText: 'It failed.' }
  const said: Chunk[] = [
    { type: 'start', messageMetadata: { model: 'small' } },
    { type: 'tool-input-error', ...call },
    { type: 'tool-output-denied', toolCallId: '1' },
    { type: 'finish' },
  ]
  const plan: Plan = {
    stream: said,
    lost: undefined,
    sizes: [1],
    again: undefined,
    unseen: 0,
    unstored: 0,
    state: 'done',
    knowsReset: false,
  }
  const item = storedOf(plan)!
  const { chunks, end } = sentBy(
    createReplyChunks({ turn: 'turn_1', message: MESSAGE, knowsReset: false }),
    endOf(plan, item),
  )
  const { parts, metadata } = await readBySdk(chunks)
  assert.deepEqual([end, metadata], ['whole', { model: 'small' }])
  assert.notDeepEqual(parts, json(item.parts))
  assert.equal((parts as { state: string }[])[0]!.state, 'output-denied')
})

const mutants: Readonly<Record<string, typeof createReplyChunks>> = {
  'what was sent before is taken as new': (options) => {
    const { take } = createReplyChunks(options)
    let next = 0
    return {
      take: (frame) => {
        if (frame.type !== 'chunks' || frame.attempt > 1) return take(frame)
        const index = next
        next += frame.count
        return take({ ...frame, index })
      },
    }
  },
  'a lost attempt is not taken back': (options) => {
    const { take } = createReplyChunks({ ...options, knowsReset: true })
    return {
      take: (frame) => {
        const sent = take(frame)
        return { ...sent, chunks: sent.chunks.filter(({ type }) => type !== 'reset-step') }
      },
    }
  },
  'the stored message adds nothing': (options) => {
    const { take } = createReplyChunks(options)
    return {
      take: (frame) => (frame.type === 'messages' ? { chunks: [] } : take(frame)),
    }
  },
  'a stream that must be cut ends well': (options) => {
    const { take } = createReplyChunks(options)
    return {
      take: (frame) => {
        const { chunks, end } = take(frame)
        return end === 'cut'
          ? { chunks: [{ type: 'finish' }], end: 'whole' }
          : { chunks, ...(end && { end }) }
      },
    }
  },
}

for (const [name, mutant] of Object.entries(mutants))
  test(`mutant, ${name}: turns red`, async () => {
    const rules = fc.asyncProperty(plans, async (plan) => (await broken(plan, {}, mutant)).length === 0)
    const { failed } = await fc.check(rules, { numRuns: 600, seed: 7 })
    assert.ok(failed, 'no reply broke a rule')
  })
