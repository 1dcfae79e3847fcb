// The AI SDK's releases 5, 6 and 7 against a pod, each with its own transports, its own reader and its own schema. An agent says what a test gives
// it, word for word, and waits in the middle. `npm ci --prefix bench --ignore-scripts` installs the older releases.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { chunkOf, condense, createAssembler, type Chunk } from '@fleetline/protocol'
import * as fc from 'fast-check'
import {
  inNewWords,
  releaseOf,
  sdkOf,
  writtenBy,
  type Sdk,
  type SdkName,
} from '../../../protocol/test/support/releases.ts'
import { anyStream, left, legalStream } from '../../../protocol/test/support/streams.ts'
import { levelOf, parseLevel, type SdkLevel } from '../../src/gateway/chat/sdk-levels.ts'
import { eventually } from '../support/eventually.ts'
import { EVERY_CHUNK } from '../support/every-chunk.ts'
import { proofSize } from '../support/proof-size.ts'
import { assertStored, openStage, pageOn, shownOf, storedOf, userMessage } from '../support/sdk-stage.ts'
import { chatOf } from '../support/use-chat.ts'

const STREAMS = { numRuns: proofSize({ full: 5_000, quick: 500 }), seed: 20 }
const REPLIES = proofSize({ full: 300, quick: 25 })
const SDKS = ['ai5', 'ai6', 'ai7'] as const
const PAGES = [
  ['ai5', 'http'],
  ['ai6', 'http'],
  ['ai7', 'http'],
  ['ai7', 'socket'],
] as const

// The levels and the schemas

const levelFor = ({ version }: Sdk) => levelOf(parseLevel(version), [6, 0, 0])
/** With every type at least once. */
const fullStream = fc
  .tuple(fc.shuffledSubarray([...EVERY_CHUNK], { minLength: EVERY_CHUNK.length }), anyStream)
  .map(([every, more]) => [...every, ...more])

const newest = await sdkOf('ai7')

/** The chunks that the release rejects of those that it gets. */
async function rejectedBy({ isKnown }: Sdk, { fitting }: SdkLevel, stream: readonly Chunk[]) {
  const said = await filterBy(stream, newest.isKnown)
  return filterBy(said.flatMap(fitting()), async (chunk) => !(await isKnown(chunk)))
}

async function filterBy(chunks: readonly Chunk[], test: Sdk['isKnown']): Promise<Chunk[]> {
  const passed = await Promise.all(chunks.map(test))
  return chunks.filter((_, place) => passed[place])
}

for (const name of SDKS)
  test(`${name}: the schema accepts all chunks sent to this release, and every known chunk is sent, in ${STREAMS.numRuns} streams`, async (t) => {
    const sdk = await sdkOf(name)
    const level = levelFor(sdk)
    const isTaken = fc.asyncProperty(fullStream, async (stream) => {
      assert.deepEqual(await rejectedBy(sdk, level, stream), [])
    })
    await fc.assert(isTaken, STREAMS)
    for (const chunk of EVERY_CHUNK)
      assert.equal(level.fitting()(chunk).length > 0, await sdk.isKnown(chunk), chunk.type)
    t.diagnostic(`figure ${name}_streams ${STREAMS.numRuns}`)
  })

test('mutant, no levels: the schema of ai5 rejects what it gets', async () => {
  const off = levelOf(undefined, [7, 0, 169])
  const rejected = await rejectedBy(await sdkOf('ai5'), off, EVERY_CHUNK)
  assert.ok(rejected.some(({ type }) => type === 'custom'))
})

// Their transports and readers

const SAID: readonly Chunk[] = [
  { type: 'start', messageId: 'the-agents-own', messageMetadata: { model: 'small' } },
  { type: 'start-step' },
  { type: 'reasoning-start', id: '1' },
  { type: 'reasoning-delta', id: '1', delta: 'They ask for ' },
  { type: 'reasoning-delta', id: '1', delta: 'the weather.' },
  { type: 'reasoning-end', id: '1' },
  { type: 'tool-input-start', toolCallId: 'call', toolName: 'weather' },
  { type: 'tool-input-delta', toolCallId: 'call', inputTextDelta: '{"city":' },
  { type: 'tool-input-delta', toolCallId: 'call', inputTextDelta: '"Bern"}' },
  { type: 'tool-input-available', toolCallId: 'call', toolName: 'weather', input: { city: 'Bern' } },
  { type: 'tool-output-available', toolCallId: 'call', output: { degrees: 21 } },
  { type: 'finish-step' },
  { type: 'start-step' },
  { type: 'source-url', sourceId: '1', url: 'https://example.com/', title: 'Weather' },
  { type: 'data-weather', id: '1', data: { degrees: 20 } },
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'It is ' },
  { type: 'text-delta', id: '1', delta: '21 ' },
  { type: 'data-weather', id: '1', data: { degrees: 21 } },
  { type: 'text-delta', id: '1', delta: 'degrees.' },
  { type: 'text-end', id: '1' },
  { type: 'file', url: 'data:text/plain,x', mediaType: 'text/plain' },
  { type: 'finish-step' },
  { type: 'finish', finishReason: 'stop', messageMetadata: { tokens: 3 } },
]
const MIDDLE = SAID.findIndex((chunk) => chunk.type === 'text-delta' && chunk.delta === '21 ')

for (const [name, kind] of PAGES) {
  test(`D4 D6 L4 E8 E10: ${name} over ${kind} sends, is cut and resumes, stops, sends twice, regenerates and edits; what it reads is what is stored`, async (t) => {
    const stage = await openStage(t)
    const sdk = await sdkOf(name)
    const { send, say, resume } = pageOn(t, stage, { sdk, kind, chatId: 'trip' })
    const lastOf = async () => (await stage.log('trip')).at(-1)

    stage.script('hello', SAID)
    assertStored(await say('hello'), await lastOf())

    const cut = stage.script('cut', SAID, MIDDLE)
    const broken = say('cut')
    await cut.paused.promise
    stage.cut()
    const first = await broken.catch(() => undefined) // it may break before its headers have come
    assert.ok(!first || first.errors.length > 0, 'it is no whole reply')
    assert.notEqual(first?.last, 'finish')
    const whole = await resume(cut.go.resolve)
    assertStored(whole, await lastOf())
    if (first?.message) assert.equal(first.message.id, whole.message!.id)
    assert.equal(cut.calls, 1)

    const stopped = stage.script('stop', SAID, MIDDLE)
    const stopping = say('stop')
    await stopped.paused.promise
    await stage.untilWritten('It is ')
    assert.equal((await stage.stop('trip'))['stopped'], true)
    assertStored(await stopping, await lastOf(), 'abort')
    assert.equal((await lastOf())!.status, 'stopped')

    const twice = stage.script('twice', SAID, MIDDLE)
    const [one, other] = [say('twice'), say('twice')]
    await twice.paused.promise
    twice.go.resolve()
    assertStored(await one, await lastOf())
    assertStored(await other, await lastOf())
    assertStored(await say('twice'), await lastOf())
    assert.equal(twice.calls, 1)

    const messages = [userMessage('twice')]
    const again = await send(messages, { trigger: 'regenerate-message' })
    assertStored(again, await lastOf())
    assert.notEqual(again.message!.id, (await one).message!.id)
    const named = { trigger: 'regenerate-message', messageId: again.message!.id } as const
    assertStored(await send(messages, named), await lastOf())
    assert.equal(twice.calls, 3)

    const edited = stage.script('edited', SAID)
    const id = userMessage('twice').id
    assertStored(await send([userMessage('edited', id)], { messageId: id }), await lastOf())
    assert.equal(edited.calls, 1)
    const texts = (await stage.load('trip')).map(({ parts: [part] }) => part?.type === 'text' && part.text)
    assert.deepEqual(texts.filter(Boolean), ['hello', 'cut', 'stop', 'edited'])
  })

  test(`D6: the chat of ${name} over ${kind} is cut, loads and resumes, and shows what is stored`, async (t) => {
    const stage = await openStage(t)
    const sdk = await sdkOf(name)
    const { transport } = pageOn(t, stage, { sdk, kind, chatId: 'trip' })
    const chat = chatOf({ id: 'trip', transport, Chat: sdk.AbstractChat })
    const script = stage.script('cut', SAID, MIDDLE)
    const sent = chat.sendMessage({ text: 'cut' })
    await script.paused.promise
    await eventually(() => assert.match(JSON.stringify(chat.messages), /It is /), { what: 'the first words' })
    stage.cut()
    await sent
    assert.equal(chat.status, 'error')
    chat.messages = await stage.load('trip')
    chat.clearError()
    const resumed = chat.resumeStream()
    await eventually(() => assert.match(JSON.stringify(chat.messages), /It is /), { what: 'the words again' })
    script.go.resolve()
    await resumed
    assert.equal(chat.status, 'ready')
    assert.deepEqual(chat.messages.map(shownOf), (await stage.log('trip')).map(storedOf))
  })

  test(`D4 D6: ${name} over ${kind} reads ${REPLIES} random replies, each once more after a cut, as they are stored`, async (t) => {
    const stage = await openStage(t)
    const sdk = await sdkOf(name)
    const streams = await sayableStreams(name)
    let cuts = 0
    const pauses = fc.sample(fc.nat(), { numRuns: REPLIES, seed: 8 })
    for (const [place, stream] of streams.entries()) {
      const chatId = `chat-${place}`
      const { say, resume } = pageOn(t, stage, { sdk, kind, chatId })
      const script = stage.script(chatId, stream, pauses[place]! % stream.length)
      const broken = say(chatId)
      await script.paused.promise
      stage.cut()
      const first = await broken.catch(() => undefined)
      assert.ok(!first || first.errors.length > 0, JSON.stringify(stream))
      const whole = await resume(script.go.resolve)
      const [, item] = await stage.log(chatId)
      const after = await say(chatId) // it is over: it is sent again from the log
      if (whole.errors.length === 0) assertStored(whole, item)
      else cuts += 1 // it had to begin again, but the turn was over
      assertStored(after, item)
    }
    t.diagnostic(`figure ${name}_${kind}_replies ${streams.length}`)
    t.diagnostic(`figure ${name}_${kind}_cuts ${cuts}`)
    assert.ok(cuts <= REPLIES * MOST_CUT, `${cuts} replies were cut at their end`)
  })
}

/** A call has one end, so those that fail and are denied are calls of their own. */
const everyLegal = legalOnly(
  EVERY_CHUNK.flatMap((chunk): Chunk[] => {
    const { type } = chunk
    if (type === 'finish') return []
    if (type !== 'tool-output-error' && type !== 'tool-output-denied') return [chunk]
    const call = { toolCallId: type, toolName: 'weather', dynamic: true, input: {} }
    return [
      { type: 'tool-input-available', ...call },
      { ...chunk, toolCallId: type },
    ]
  }),
)

for (const [name, kind] of PAGES)
  test(`${name} over ${kind} reads a reply with every type of chunk; ai7 reads what is stored`, async (t) => {
    const stage = await openStage(t)
    const sdk = await sdkOf(name)
    stage.script('every', [...everyLegal, { type: 'finish' }])
    const page = pageOn(t, stage, { sdk, kind, chatId: 'trip' })
    for (const reply of [await page.say('every'), await page.say('every')]) {
      assert.deepEqual([reply.errors, reply.last], [[], 'finish'])
      if (name === 'ai7') assertStored(reply, (await stage.log('trip')).at(-1))
    }
  })

test('mutant, a page that names no release: ai5 fails at a chunk that it does not know', async (t) => {
  const stage = await openStage(t)
  const sdk = await sdkOf('ai5')
  stage.script('every', [...everyLegal, { type: 'finish' }])
  const page = pageOn(t, stage, { sdk, kind: 'http', chatId: 'trip', isNamed: false })
  assert.match(String((await page.say('every')).errors[0]), /validation/i)
})

/** A reader shows the beginning of a step only together with what follows. */
const LAST: Chunk = { type: 'data-last', data: 'end' }
/** Of the replies. Some that no agent of the AI SDK writes cannot be said again once they are stored, such as a call that is denied after it has
 *  failed. Release 5 also loses what the provider says about a call that is over. */
const MOST_UNSAYABLE = 0.1
/** Of the replies whose last chunks a reader has not got before they were stored. */
const MOST_CUT = 0.1

/** Replies that an agent of this release could have written, and that end well. */
async function sayableStreams(name: SdkName): Promise<Chunk[][]> {
  const sdk = await sdkOf(name)
  const release = name === 'ai7' ? undefined : await releaseOf(name)
  const read = async (chunks: readonly Chunk[]) =>
    inNewWords((await left(chunks, sdk.readUIMessageStream)).message)
  const streams: Chunk[][] = []
  let seed = 0
  while (streams.length < REPLIES) {
    const [stream] = fc.sample(legalStream, { numRuns: 1, seed: (seed += 1) })
    const known = await filterBy(stream!, newest.isKnown)
    const plain = legalOnly(known.filter(({ type }) => type !== 'finish'))
    const said = [...(release ? legalOnly(await writtenBy(release, plain)) : plain), LAST]
    const message = messageOf(said)
    assert.deepEqual(await read(said), inNewWords(message))
    const again = condense(message).map(chunkOf).flatMap(levelFor(sdk).fitting())
    if (isDeepStrictEqual(await read(again), inNewWords(message)))
      streams.push([...said, { type: 'finish', finishReason: 'stop' }])
  }
  assert.ok(seed * (1 - MOST_UNSAYABLE) < REPLIES, `${seed} streams for ${REPLIES} replies`)
  return streams
}

/** Without the chunks that a pod would refuse where they stand, and without those that end a stream. */
function legalOnly(stream: readonly Chunk[]): Chunk[] {
  const assembler = createAssembler('m')
  return stream.filter((chunk) => {
    if (chunk.type === 'error' || chunk.type === 'abort') return false
    try {
      assembler.push(chunk)
      return true
    } catch {
      return false
    }
  })
}

function messageOf(stream: readonly Chunk[]) {
  const assembler = createAssembler('m')
  stream.forEach(assembler.push)
  return assembler.message()
}
