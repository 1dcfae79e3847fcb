// Our assembler against the AI SDK's own reducer, over generated streams. Fails when a delta loses what the provider said,
// when metadata replaces instead of merging, when reset-step keeps what was open, when the decoder drops the rest of a line
// or decodes each piece of bytes for itself (all tried).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai'
import * as fc from 'fast-check'
import {
  ChunkError,
  CHUNK_LENGTH,
  chunkOf,
  createAssembler,
  createChunkDecoder,
  mergeDeltas,
  type Chunk,
  type Message,
} from '../src/index.ts'

const ids = fc.constantFrom('1', '2', 'constructor')
const texts = fc.oneof(
  fc.constantFrom('', 'word ', 'né', '👋', '\n\ndata: {', '"\\'),
  fc.string({ maxLength: 6 }),
)
const optional = <T>(key: string, value: fc.Arbitrary<T>) =>
  fc.option(value, { nil: undefined }).map((one) => (one === undefined ? {} : { [key]: one }))
const described = optional(
  'providerMetadata',
  fc.dictionary(fc.constantFrom('p', 'q'), fc.constant({ n: 1 })),
)
const metadata = optional(
  'messageMetadata',
  fc.oneof(
    fc.constant(null),
    fc.dictionary(
      fc.constantFrom('a', 'b', 'c', 'toString'),
      fc.oneof(
        fc.nat(3),
        fc.constant([1]),
        fc.constant(null),
        fc.dictionary(fc.constantFrom('x', 'y'), fc.nat(3)),
      ),
    ),
  ),
)

/** Fields of one chunk, from several arbitraries. */
function chunk(type: string, ...fields: readonly fc.Arbitrary<object>[]): fc.Arbitrary<Chunk> {
  return fc.tuple(...fields).map((all) => Object.assign({ type }, ...all) as Chunk)
}
const id = ids.map((one) => ({ id: one }))
const delta = texts.map((one) => ({ delta: one }))
const anyChunk = fc.oneof(
  { weight: 4, arbitrary: chunk('text-delta', id, delta, described) },
  { weight: 2, arbitrary: chunk('text-start', id, described) },
  chunk('text-end', id, described, optional('citations', fc.constant([{ type: 'x' }]))),
  { weight: 2, arbitrary: chunk('reasoning-delta', id, delta, described) },
  chunk('reasoning-start', id, described),
  chunk('reasoning-end', id, described),
  chunk('start', metadata, optional('messageId', fc.constant('m'))),
  chunk('start-step'),
  chunk('finish-step'),
  chunk('reset-step'),
  chunk(
    'data-weather',
    optional('id', ids),
    fc.oneof(fc.nat(9), fc.constant({ t: [1] }), texts).map((data) => ({ data })),
    optional('transient', fc.boolean()),
    optional('delta', fc.nat(2)), // no delta, though it is called one
  ),
  chunk(
    'error',
    texts.map((errorText) => ({ errorText })),
  ),
  chunk('finish', metadata, optional('finishReason', fc.constantFrom('stop', 'length', 'error'))),
)
const anyStream = fc.array(anyChunk, { maxLength: 14 })

/** Without the chunks that would be refused where they stand. */
const legalStream = anyStream.map((stream) => {
  const assembler = createAssembler('m')
  return stream.filter((one) => {
    try {
      assembler.push(one)
      return true
    } catch {
      return false
    }
  })
})

function assembled(stream: readonly Chunk[]): { readonly message: Message; readonly isRefused: boolean } {
  const assembler = createAssembler('m')
  try {
    for (const one of stream) assembler.push(one)
    return { message: assembler.message(), isRefused: false }
  } catch (error) {
    assert.ok(error instanceof ChunkError)
    return { message: assembler.message(), isRefused: true }
  }
}

/** The message that the AI SDK was left with. */
async function reduced(
  stream: readonly Chunk[],
): Promise<{ readonly message: UIMessage; readonly isRefused: boolean }> {
  const message: UIMessage = { id: 'm', role: 'assistant', parts: [], metadata: undefined } // it is changed in place
  let isRefused = false
  const source = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      for (const one of structuredClone(stream)) controller.enqueue(one as UIMessageChunk)
      controller.close()
    },
  })
  const onError = (error: unknown) => (isRefused ||= error instanceof Error && error.name !== 'Error')
  for await (const _ of readUIMessageStream({ message, stream: source, onError }));
  return { message, isRefused }
}

function json(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

test('any order of chunks: the message that the AI SDK makes, refused where it refuses', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream, async (stream) => {
      assert.deepEqual(json(assembled(stream)), json(await reduced(stream)))
    }),
    { numRuns: 300 },
  )
})

test('merged deltas make the same message, however the stream was cut; mutant, merged across parts', () => {
  const merges = (merge: typeof mergeDeltas) =>
    fc.property(legalStream, fc.nat(14), (stream, cut) => {
      const pieces = [...merge(stream.slice(0, cut)), ...merge(stream.slice(cut))]
      assert.ok(pieces.length <= stream.length)
      assert.deepEqual(assembled(pieces), assembled(stream))
    })
  fc.assert(merges(mergeDeltas), { numRuns: 500 })
  const careless: typeof mergeDeltas = (chunks) =>
    mergeDeltas(Array.from(chunks, (one) => ('delta' in one ? { ...one, id: '1' } : one)))
  assert.equal(fc.check(merges(careless), { numRuns: 5_000, seed: 1 }).failed, true)
})

const encoder = new TextEncoder()
const FRAMINGS: Readonly<Record<string, (stream: readonly Chunk[]) => string>> = {
  'server-sent events': (stream) =>
    `: stream-open\n\n${stream.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')}data: [DONE]\n\n`,
  'events with ids, and lines that end as in Windows': (stream) =>
    stream.map((one, n) => `id: 1.${n}\r\ndata:${JSON.stringify(one)}\r\n\r\n`).join(''),
  'a chunk a line': (stream) => stream.map((one) => JSON.stringify(one)).join('\n'),
}

test('300 streams, in every framing: the message that the AI SDK makes, for every split of bytes', async () => {
  const framings = fc.constantFrom(...Object.values(FRAMINGS))
  await fc.assert(
    fc.asyncProperty(legalStream, framings, async (stream, frame) => {
      const expected = json((await reduced(stream)).message)
      const bytes = encoder.encode(frame(stream))
      for (let at = 0; at <= bytes.length; at += 1) {
        const decoder = createChunkDecoder()
        const [first, second] = [decoder.push(bytes.subarray(0, at)), decoder.push(bytes.subarray(at))]
        const chunks = [...first, ...second, ...decoder.end()]
        assert.deepEqual(json(assembled(chunks).message), expected, `split at ${at}`)
      }
    }),
    { numRuns: 300 },
  )
})

test('bytes that came one by one give the same chunks', () => {
  const stream: Chunk[] = [{ type: 'start' }, { type: 'data-x', data: '👋 né' }, { type: 'finish' }]
  for (const frame of Object.values(FRAMINGS)) {
    const decoder = createChunkDecoder()
    const chunks = Array.from(encoder.encode(frame(stream)), (byte) => decoder.push(Uint8Array.of(byte)))
    assert.deepEqual([...chunks.flat(), ...decoder.end()], stream)
  }
})

test('what is no chunk is refused, with what is wrong', () => {
  const cases: readonly (readonly [value: unknown, fault: RegExp])[] = [
    ['text', /JSON object/],
    [null, /JSON object/],
    [[], /JSON object/],
    [{}, /has a type/],
    [{ type: 'tool-input-start', toolCallId: '1', toolName: 'x' }, /type tool-input-start are not known/],
    [{ type: 'constructor' }, /are not known/],
    [{ type: 'text-delta', delta: 'x' }, /text-delta: id/],
    [{ type: 'text-delta', id: '1', delta: 1 }, /text-delta: delta/],
    [{ type: 'text-end', id: '1', citations: {} }, /citations/],
    [{ type: 'start', messageMetadata: 'x' }, /messageMetadata/],
    [{ type: 'finish', finishReason: 'tired' }, /finishReason/],
    [{ type: 'data-x', id: 1, data: 1 }, /data-x: id/],
    [{ type: 'error' }, /errorText/],
  ]
  for (const [value, fault] of cases)
    assert.throws(() => chunkOf(value), { name: 'ChunkError', message: fault })
  const extra = { type: 'text-start', id: '1', later: true }
  assert.equal(chunkOf(extra), extra, 'a field that a later release adds is kept')
})

test('bytes that cannot be chunks are refused, and so is a line without an end', () => {
  const refuses = (text: string | Uint8Array, fault: RegExp) => {
    const decoder = createChunkDecoder()
    const bytes = typeof text === 'string' ? encoder.encode(text) : text
    assert.throws(() => [...decoder.push(bytes), ...decoder.end()], { name: 'ChunkError', message: fault })
  }
  refuses('<html>\n', /neither a chunk nor an event/)
  refuses('data: {"type"\n\n', /not JSON/)
  refuses('{"type": "tool-x"}\n', /are not known/)
  refuses(Uint8Array.of(0x7b, 0xff, 0x0a), /not UTF-8/)
  refuses(Uint8Array.of(0x7b, 0xc3), /not UTF-8/)
  refuses(`{"type":"error","errorText":"${'x'.repeat(CHUNK_LENGTH)}`, /longer than/)
  refuses(`data: x\n`.repeat(CHUNK_LENGTH + 1), /longer than/)
  assert.deepEqual(
    createChunkDecoder().push(encoder.encode('data: {"type":"finish"}\n')),
    [],
    'an event without its end',
  )
})

test('what was taken from the assembler stays as it was; metadata reaches no prototype', () => {
  const assembler = createAssembler('m')
  assembler.push({ type: 'text-start', id: '1' })
  const before = assembler.message()
  assembler.push({ type: 'text-delta', id: '1', delta: 'more' })
  assert.deepEqual(before.parts, [{ type: 'text', text: '', state: 'streaming' }])
  assembler.push({ type: 'start', messageMetadata: { a: {} } })
  const hostile = JSON.parse(
    '{"type":"finish","messageMetadata":{"__proto__":{"x":1},"a":{"__proto__":{"x":1}}}}',
  )
  assembler.push(chunkOf(hostile))
  assert.deepEqual(assembler.message().metadata, { a: {} })
  assert.equal(({} as { x?: number }).x, undefined)
  assert.deepEqual(assembler.end(), { isFinished: true })
})
