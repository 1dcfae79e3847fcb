// Compares our assembler with the AI SDK's own reducer, over generated streams. These mistakes make the tests fail (all were
// tried): a delta loses the provider's metadata; metadata replaces instead of merging; reset-step keeps open parts; an output
// looks for its call in this step alone; a new part of a call keeps its older input; the decoder drops the rest of a line, or
// decodes each piece of bytes on its own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parsePartialJson } from 'ai'
import * as fc from 'fast-check'
import {
  CHUNK_LENGTH,
  chunkOf,
  chunkOfText,
  condense,
  createAssembler,
  createChunkDecoder,
  jsonFault,
  jsonTextFault,
  mergeDeltas,
  type Chunk,
  type Message,
  type Part,
} from '../src/index.ts'
import { partialJson } from '../src/partial-json.ts'
import {
  anyStream,
  assembled,
  chunk,
  described,
  errorText,
  field,
  flag,
  id,
  input,
  json,
  legalStream,
  mediaType,
  optional,
  reduced,
  texts,
  url,
  values,
} from './support/streams.ts'

test('any order of chunks makes the message that the AI SDK makes, and is refused where the AI SDK refuses it', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream, async (stream) => {
      assert.deepEqual(json(assembled(stream)), json(await reduced(stream)))
    }),
    { numRuns: 120, seed: 20 },
  )
})

const merges = (merge: typeof mergeDeltas) =>
  fc.property(legalStream, fc.nat(14), (stream, cut) => {
    const pieces = [...merge(stream.slice(0, cut)), ...merge(stream.slice(cut))]
    assert.ok(pieces.length <= stream.length, `${stream.length} chunks became ${pieces.length}`)
    assert.deepEqual(assembled(pieces), assembled(stream))
  })

test('merged deltas make the same message, however the stream was cut', () => {
  fc.assert(merges(mergeDeltas), { numRuns: 500, seed: 20 })
})

test('mutant: deltas that are merged across parts make another message', () => {
  const careless: typeof mergeDeltas = (chunks) =>
    mergeDeltas(Array.from(chunks, (one) => ('delta' in one ? { ...one, id: '1' } : one)))
  assert.equal(fc.check(merges(careless), { numRuns: 5_000, seed: 1 }).failed, true)
})

test('any beginning of a JSON text has the value that the AI SDK reads from it', async () => {
  const anyJson = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value, null, 1))
  await fc.assert(
    fc.asyncProperty(
      anyJson.filter((text) => isTelling(text)),
      async (text) => {
        const characters = Array.from(text)
        for (let length = 0; length <= characters.length; length += 1) {
          const beginning = characters.slice(0, length).join('')
          assert.deepEqual(partialJson(beginning), (await parsePartialJson(beginning)).value, beginning)
        }
      },
    ),
    { numRuns: 300, seed: 20 },
  )
})

/** Leaves out texts that we reject, and exponents with a sign and names with a quote, which the AI SDK cuts off. */
function isTelling(text: string): boolean {
  return jsonFault(JSON.parse(text)) === undefined && !/[eE]\+|\\[u"]/.test(text)
}

test('a text that is no JSON, or too deep, has no value, and text after a value is ignored', () => {
  for (const text of ['', ' ', '-', 'x', '[1 2', '{"a":tru}'])
    assert.equal(partialJson(text), undefined, text)
  assert.equal(partialJson('['.repeat(1_000_000)), undefined)
  assert.equal(partialJson('a'.repeat(4_000_000)), undefined)
  assert.deepEqual(partialJson('{"a":1} and more'), { a: 1 })
})

test('30,000 steps that are reset leave no part behind', () => {
  const assembler = createAssembler('m')
  for (let n = 0; n < 30_000; n += 1) {
    assembler.push({ type: 'tool-input-available', toolCallId: String(n), toolName: 'x', input: n })
    assembler.push({ type: 'tool-approval-request', toolCallId: String(n), approvalId: String(n) })
    assembler.push({ type: 'reset-step' })
  }
  assert.deepEqual(assembler.message().parts, [])
})

/** A part of a message that an agent might send as a whole. */
function part(type: string, ...fields: readonly fc.Arbitrary<object>[]): fc.Arbitrary<Part> {
  return chunk(type, ...fields) as fc.Arbitrary<object> as fc.Arbitrary<Part>
}
const done = fc.constant({ state: 'done' })
const asks = field(
  'approval',
  fc.constantFrom<object>({ id: 'a' }, { id: 'a', descriptor: 1, isAutomatic: true }),
)
const decided = field(
  'approval',
  fc.constantFrom({ id: 'a', requestReason: 'why', approved: false, reason: 'no' }),
)
const sometimes = (fields: fc.Arbitrary<object>) => fc.oneof(fc.constant({}), fields)
const result = optional('resultProviderMetadata', fc.constant({ p: { n: 1 } }))
const ofCall = (state: string, ...fields: readonly fc.Arbitrary<object>[]) =>
  fc.oneof(
    ...['tool-find-it', 'dynamic-tool'].map((type) => {
      const name = fc.constant(type === 'dynamic-tool' ? { state, toolName: 'find-it' } : { state })
      const facts = [optional('title', texts), flag('providerExecuted'), result.map(callsOwn)]
      return part(type, name, ...facts, ...fields)
    }),
  )
function callsOwn(fields: Readonly<Record<string, unknown>>): object {
  const [callProviderMetadata] = Object.values(fields)
  return callProviderMetadata === undefined ? {} : { callProviderMetadata }
}
const anyPart = fc.oneof(
  part('text', field('text', texts), described, done, optional('citations', fc.constant([{ type: 'x' }]))),
  part('reasoning', id, field('text', texts), described, done),
  part('step-start'),
  part('file', url, mediaType, described),
  part('data-weather', field('data', values)),
  ofCall('input-streaming', fc.constant({ rawInput: '{"a":[1', input: { a: [1] } })),
  ofCall('input-streaming', fc.constant({ rawInput: '{"a', input: '{"a', inputEncoding: 'text' })),
  ofCall('input-available', input),
  ofCall('approval-requested', input, asks),
  ofCall('approval-responded', input, decided),
  ofCall('output-available', input, field('output', values), flag('preliminary'), result, sometimes(decided)),
  ofCall('output-error', input, errorText, result, sometimes(decided)),
  ofCall('output-denied', input, decided),
)
/** Gives each call and each question an id of its own. */
function numbered(parts: readonly Part[]): Part[] {
  return parts.map((one, n) => {
    if (one['state'] === undefined || one['state'] === 'done') return one
    const approval = one['approval'] ? { approval: { ...one['approval'], id: `a${n}` } } : {}
    return { ...one, toolCallId: `call-${n}`, ...approval }
  })
}

test('a message that becomes chunks again makes the same message', () => {
  fc.assert(
    fc.property(fc.array(anyPart), (some) => {
      const message: Message = { id: 'm', role: 'assistant', parts: numbered(some), metadata: { a: 1 } }
      const chunks = condense(message).map((one) => chunkOfText(JSON.stringify(one)))
      assert.deepEqual(assembled(chunks), json({ message, isRefused: false }))
    }),
    { numRuns: 500, seed: 20 },
  )
})

test('a part of an unknown type does not become a chunk', () => {
  for (const type of ['finish', 'reset-step', 'nonsense'])
    assert.throws(() => condense({ parts: [{ type }] }), { name: 'ChunkError', message: /are not known/ })
})

test('a long text becomes several deltas, and no character is split', () => {
  const text = `${'x'.repeat(65_535)}👋${'y'.repeat(70_000)}`
  const long = condense({ parts: [{ type: 'text', text }] })
  assert.deepEqual(
    long.map(({ type, delta = '' }) => ({ type, length: (delta as string).length })),
    [
      { type: 'start', length: 0 },
      { type: 'text-start', length: 0 },
      { type: 'text-delta', length: 65_537 },
      { type: 'text-delta', length: 65_536 },
      { type: 'text-delta', length: 4_464 },
      { type: 'text-end', length: 0 },
    ],
  )
})

test('depth and width of a JSON text are known without parsing it', () => {
  const anyJson = fc.jsonValue({ maxDepth: 5 }).map((value) => JSON.stringify(value))
  fc.assert(
    fc.property(anyJson, (text) => assert.equal(jsonTextFault(text), undefined)),
    { numRuns: 300, seed: 20 },
  )
  const brackets = JSON.stringify('[\\"{,'.repeat(20_000))
  assert.equal(jsonTextFault(brackets), undefined, 'brackets in a string do not count')
  assert.match(jsonTextFault('['.repeat(1_000_000))!, /nested/)
  assert.match(jsonTextFault('"\\\\",'.repeat(10_001))!, /more than/)
})

const encoder = new TextEncoder()
const FRAMINGS: Readonly<Record<string, (stream: readonly Chunk[]) => string>> = {
  'server-sent events': (stream) =>
    `: stream-open\n\n${stream.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')}data: [DONE]\n\n`,
  'events with ids, and lines that end as in Windows': (stream) =>
    stream.map((one, n) => `id: 1.${n}\r\ndata:${JSON.stringify(one)}\r\n\r\n`).join(''),
  'a chunk a line': (stream) => stream.map((one) => JSON.stringify(one)).join('\n'),
}

test('streams in every framing, split at any byte, make the message that the AI SDK makes', async () => {
  const framings = fc.constantFrom(...Object.values(FRAMINGS))
  await fc.assert(
    fc.asyncProperty(legalStream, framings, async (stream, frame) => {
      const expected = json((await reduced(stream)).message)
      const bytes = encoder.encode(frame(stream))
      for (let at = 0; at <= bytes.length; at += 1) {
        const decoder = createChunkDecoder()
        const [first, second] = [decoder.push(bytes.subarray(0, at)), decoder.push(bytes.subarray(at))]
        const chunks = [...first, ...second, ...decoder.end()].map(chunkOfText)
        assert.deepEqual(json(assembled(chunks).message), expected, `split at ${at}`)
      }
    }),
    { numRuns: 300, seed: 20 },
  )
})

test('bytes that arrive one by one give the same chunks', () => {
  const stream: Chunk[] = [{ type: 'start' }, { type: 'data-x', data: '👋 né' }, { type: 'finish' }]
  for (const frame of Object.values(FRAMINGS)) {
    const decoder = createChunkDecoder()
    const chunks = Array.from(encoder.encode(frame(stream)), (byte) => decoder.push(Uint8Array.of(byte)))
    assert.deepEqual([...chunks.flat(), ...decoder.end()].map(chunkOfText), stream)
  }
})

test('a value that is no chunk is refused, and the error says what is wrong', () => {
  const cases: readonly (readonly [value: unknown, fault: RegExp])[] = [
    ['text', /JSON object/],
    [null, /JSON object/],
    [[], /JSON object/],
    [{}, /has a type/],
    [{ type: 'tool-input-begin' }, /type tool-input-begin are not known/],
    [{ type: 'tool-input-start', toolCallId: '1' }, /tool-input-start: toolName/],
    [{ type: 'tool-input-start', toolCallId: '1', toolName: 'x', inputEncoding: 'xml' }, /json or text/],
    [{ type: 'tool-output-available', toolCallId: '1', output: 1, preliminary: 'yes' }, /preliminary/],
    [{ type: 'tool-approval-response', approvalId: '1', approved: 'no' }, /approved/],
    [{ type: 'file', url: 'x' }, /file: mediaType/],
    [{ type: 'steering-message', id: '1', parts: [{ type: 'text' }] }, /texts and files/],
    [{ type: 'steering-message', id: '1', parts: [{ type: 'tool-x', text: '' }] }, /texts and files/],
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
    const chunks = () => [...decoder.push(bytes), ...decoder.end()].map(chunkOfText)
    assert.throws(chunks, { name: 'ChunkError', message: fault })
  }
  refuses('<html>\n', /neither a chunk nor an event/)
  refuses('data: {"type"\n\n', /not JSON/)
  refuses('{"type": "tool-x"}\n', /are not known/)
  refuses(Uint8Array.of(0x7b, 0xff, 0x0a), /not UTF-8/)
  refuses(Uint8Array.of(0x7b, 0xc3), /not UTF-8/)
  refuses(`{"type":"error","errorText":"${'x'.repeat(CHUNK_LENGTH)}`, /longer than/)
  refuses('data: x\n'.repeat(CHUNK_LENGTH / 7 + 1), /longer than/)
  refuses('data:\n'.repeat(CHUNK_LENGTH / 5 + 1), /longer than/)
  refuses(`{"type":"data-x","data":${'['.repeat(65)}${']'.repeat(65)}}\n`, /nested deeper than 64/)
  refuses(`{"type":"data-x","data":[${'0,'.repeat(10_000)}0]}\n`, /more than 10000 fields/)
  assert.deepEqual(
    createChunkDecoder().push(encoder.encode('data: {"type":"finish"}\n')),
    [],
    'an event without its end gives no chunk',
  )
})

test('a message that was taken from the assembler does not change later', () => {
  const assembler = createAssembler('m')
  assembler.push({ type: 'text-start', id: '1' })
  const before = assembler.message()
  assembler.push({ type: 'text-delta', id: '1', delta: 'more' })
  assert.deepEqual(before.parts, [{ type: 'text', text: '', state: 'streaming' }])
})

test('metadata reaches no prototype', () => {
  const assembler = createAssembler('m')
  assembler.push({ type: 'start', messageMetadata: { a: {} } })
  const hostile = JSON.parse(
    '{"type":"finish","messageMetadata":{"__proto__":{"x":1},"a":{"__proto__":{"x":1}}}}',
  )
  assembler.push(chunkOf(hostile))
  assert.deepEqual(assembler.message().metadata, { a: {} })
  assert.equal(({} as { x?: number }).x, undefined)
})
