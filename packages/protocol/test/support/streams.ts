// Streams of chunks, of every type and in any order, and the message that each reducer makes of one: ours, and an AI SDK's.
import assert from 'node:assert/strict'
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai'
import * as fc from 'fast-check'
import { ChunkError, createAssembler, FINISH_REASONS, type Chunk, type Message } from '../../src/index.ts'

const ids = fc.constantFrom('1', '2', 'constructor')
export const texts = fc.oneof(
  fc.constantFrom('', 'word ', 'né', '👋', '\n\ndata: {', '"\\'),
  fc.string({ maxLength: 6 }),
)
export const optional = <T>(key: string, value: fc.Arbitrary<T>) =>
  fc.option(value, { nil: undefined }).map((one) => (one === undefined ? {} : { [key]: one }))
export const described = optional(
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
export function chunk(type: string, ...fields: readonly fc.Arbitrary<object>[]): fc.Arbitrary<Chunk> {
  return fc.tuple(...fields).map((all) => Object.assign({ type }, ...all) as Chunk)
}
export function field<T>(name: string, value: fc.Arbitrary<T>): fc.Arbitrary<object> {
  return value.map((one) => ({ [name]: one }))
}
export const id = field('id', ids)
const delta = field('delta', texts)
export const values = fc.constantFrom<unknown>(null, 0, 'word', { city: 'Bern', days: [1, 2] }, [])
const call = field('toolCallId', fc.constantFrom('1', '2', 'constructor'))
export const flag = (name: string) => optional(name, fc.boolean())
const tool = [call, flag('providerExecuted'), flag('dynamic'), described] as const
const facts = optional('toolMetadata', fc.constantFrom({ icon: 'sun' }, {}))
const named = [
  ...tool,
  facts,
  field('toolName', fc.constantFrom('weather', 'find-it')),
  optional('title', fc.constantFrom('Weather', '')),
] as const
export const input = field('input', values)
export const errorText = field('errorText', texts)
const approval = field('approvalId', fc.constantFrom('a', 'b'))
const reason = optional('reason', texts)
/** Of an input: joined in any order, they are the beginning of a JSON text. */
const inputs = fc.constantFrom('', '[', '{"a":', '[1,', '[null,"né\\n",', '{"k":{},"l":[true],"a": ')
const anyTool = fc.oneof(
  {
    weight: 3,
    arbitrary: chunk(
      'tool-input-start',
      ...named,
      optional('inputEncoding', fc.constantFrom('json', 'text')),
    ),
  },
  { weight: 4, arbitrary: chunk('tool-input-delta', call, field('inputTextDelta', inputs)) },
  { weight: 2, arbitrary: chunk('tool-input-available', ...named, input) },
  chunk('tool-input-error', ...named, input, errorText),
  chunk(
    'tool-approval-request',
    call,
    approval,
    reason,
    flag('isAutomatic'),
    optional('signature', fc.constant('s')),
    optional('approvalDescriptor', values),
    optional('inputSchemaInput', values),
  ),
  chunk(
    'tool-approval-response',
    approval,
    field('approved', fc.boolean()),
    reason,
    flag('providerExecuted'),
    described,
  ),
  {
    weight: 2,
    arbitrary: chunk('tool-output-available', ...tool, facts, field('output', values), flag('preliminary')),
  },
  chunk('tool-output-error', ...tool, facts, errorText),
  chunk('tool-output-denied', call),
)
export const url = field('url', fc.constantFrom('https://example.com/', 'data:text/plain,x'))
export const mediaType = field('mediaType', fc.constant('text/plain'))
const source = field('sourceId', ids)
const title = field('title', texts)
const parts = fc.constantFrom<unknown>(
  [],
  [{ type: 'text', text: 'go left', own: 1 }],
  [{ type: 'file', mediaType: 'text/plain', url: 'https://example.com/' }],
)
const anyWhole = fc.oneof(
  chunk('file', url, mediaType, described, optional('filename', texts)), // a chunk of a file has no such field
  chunk('reasoning-file', url, mediaType, described),
  chunk('source-url', source, url, optional('title', texts), described),
  chunk('source-document', source, mediaType, title, optional('filename', texts), described),
  chunk('custom', field('kind', fc.constant('vendor.kind')), described),
  chunk('steering-message', id, field('parts', parts)),
)
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
  chunk('error', errorText),
  chunk('abort', reason),
  chunk('message-metadata', metadata),
  chunk('finish', metadata, optional('finishReason', fc.constantFrom(...FINISH_REASONS))),
  { weight: 12, arbitrary: anyTool },
  { weight: 2, arbitrary: anyWhole },
)
export const anyStream = fc.array(anyChunk, { maxLength: 20 })

/** Without the chunks that would be refused where they stand. */
export const legalStream = anyStream.map((stream) => {
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

export function assembled(stream: readonly Chunk[]): {
  readonly message: Message
  readonly isRefused: boolean
} {
  const assembler = createAssembler('m')
  try {
    for (const one of stream) assembler.push(one)
    return { message: assembler.message(), isRefused: false }
  } catch (error) {
    assert.ok(error instanceof ChunkError)
    return { message: assembler.message(), isRefused: true }
  }
}

/** The message that an AI SDK was left with, and all that it complained of. */
export async function left(
  stream: readonly Chunk[],
  read: typeof readUIMessageStream,
): Promise<{ readonly message: UIMessage; readonly errors: readonly unknown[] }> {
  const message: UIMessage = { id: 'm', role: 'assistant', parts: [], metadata: undefined } // it is changed in place
  const errors: unknown[] = []
  const source = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      for (const one of structuredClone(stream)) controller.enqueue(one as UIMessageChunk)
      controller.close()
    },
  })
  const onError = (error: unknown) => errors.push(error)
  for await (const _ of read({ message, stream: source, onError }));
  return { message, errors }
}

/** By the newest. */
export async function reduced(
  stream: readonly Chunk[],
): Promise<{ readonly message: UIMessage; readonly isRefused: boolean }> {
  const { message, errors } = await left(stream, readUIMessageStream)
  return { message, isRefused: errors.some((error) => error instanceof Error && error.name !== 'Error') }
}

export function json(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}
