// Finds the chunks that turn what a reader has of a message into the message as it is stored. A reader of a live reply may not have got its
// last chunks, and a reply that was stopped ends otherwise than its chunks say. Guarantees:
//   the reader's message then equals the stored one; if no chunks can do that, it is said so, and the reader must begin again
//
//   a part that the reader has             becomes the stored one by
//   the same                               nothing
//   a text or reasoning that grows         the rest of it, and its end
//   a call whose input still grows         the whole call again: it is in the current step
//   a call with its input                  the approval, the decision, and the output, error or denial, as far as they are missing
//   data with an id                        the data again
//   any other                              nothing can
// Parts that the reader does not have follow as `condense` writes them.
import type { Assembler } from './assemble.ts'
import { chunkOf } from './chunk-of.ts'
import { ChunkError, type Chunk } from './chunk.ts'
import { askedOf, callOf, chunksOf, isCall, piecesOf, type Condensed } from './condense.ts'
import { given, isFields } from './json.ts'
import type { Message, Part } from './message.ts'

/** The ids of the texts and reasonings of a message, by the index of their part. */
export type TextIds = ReadonlyMap<number, string>

/** Also brings the assembler, which has what the reader has, to the stored message. Undefined: no chunks can do that. */
export function extend(
  shown: Assembler,
  stored: Pick<Message, 'parts' | 'metadata'>,
  ids: TextIds,
): Chunk[] | undefined {
  try {
    const chunks = missing(shown.message(), stored, ids).map(chunkOf)
    chunks.forEach(shown.push)
    const { parts, metadata } = shown.message()
    return isSame([parts, metadata], [stored.parts, stored.metadata]) ? chunks : undefined
  } catch (error) {
    if (error instanceof ChunkError) return undefined
    throw error
  }
}

function missing(
  has: Message,
  { parts, metadata }: Pick<Message, 'parts' | 'metadata'>,
  ids: TextIds,
): Condensed[] {
  const grown = has.parts.flatMap((part, index) => between(part, parts[index], ids.get(index)))
  const rest = parts.slice(has.parts.length).flatMap((part, index) => chunksOf(part, `rest-${index}`))
  const said = isSame(has.metadata, metadata) ? [] : [{ type: 'message-metadata', messageMetadata: metadata }]
  return [...grown, ...rest, ...said]
}

/** `id`: that of an open text or reasoning. */
function between(has: Part, wanted: Part | undefined, id: string | undefined): Condensed[] {
  if (!wanted) throw new ChunkError('The stored message has fewer parts')
  if (isSame(has, wanted)) return []
  if (wanted.type === 'text' || wanted.type === 'reasoning') return wordsBetween(has, wanted, id)
  if (isCall(wanted)) return callBetween(has, wanted)
  if (wanted.type.startsWith('data-') && wanted['id'] !== undefined) return [wanted]
  throw new ChunkError('The stored message has another part')
}

function wordsBetween(has: Part, wanted: Part, id: string | undefined): Condensed[] {
  const { type, text, state, providerMetadata, citations } = wanted
  const said = String(has['text'])
  if (id === undefined || typeof text !== 'string' || !text.startsWith(said))
    throw new ChunkError('It says something else')
  const rest = text.slice(said.length)
  const described = isSame(has['providerMetadata'], providerMetadata) ? {} : given({ providerMetadata })
  const deltas = rest === '' ? [] : piecesOf(rest).map((delta) => ({ type: `${type}-delta`, id, delta }))
  return [
    ...deltas,
    ...(state === 'streaming' ? [] : [{ type: `${type}-end`, id, ...described, ...given({ citations }) }]),
  ]
}

function callBetween(has: Part, wanted: Part): Condensed[] {
  if (has['state'] === 'input-streaming') return callOf(wanted)
  const {
    toolCallId,
    output,
    errorText,
    preliminary,
    toolMetadata,
    resultProviderMetadata: providerMetadata,
  } = wanted
  const asked = askedOf(wanted).slice(askedOf(has).length)
  const result = { toolCallId, ...given({ toolMetadata, providerMetadata }) }
  switch (wanted['state']) {
    case 'output-available':
      return [...asked, { type: 'tool-output-available', ...result, output, ...given({ preliminary }) }]
    case 'output-error':
      return [...asked, { type: 'tool-output-error', ...result, errorText }]
    case 'output-denied':
      return [...asked, { type: 'tool-output-denied', toolCallId }]
    default:
      return asked
  }
}

/** Equal as JSON: the order of fields does not count. */
function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((value, index) => isSame(value, b[index]))
  if (!isFields(a) || !isFields(b)) return a === b
  const [fields, others] = [given(a), given(b)]
  const names = Object.keys(fields)
  return (
    names.length === Object.keys(others).length && names.every((name) => isSame(fields[name], others[name]))
  )
}
