// Turns a message back into chunks, as few as possible. An agent that answers with a whole message has, in effect, sent these.
//
//   part                                        chunks
//   step-start                                  start-step
//   text, reasoning                             start, deltas, and the end unless it is streaming
//   a call: input-streaming                     tool-input-start, a delta of the text so far
//   a call: input-available, approval-…,        tool-input-available, the approval and its decision, tool-output-denied
//   output-denied
//   a call: output-available, output-error      tool-input-start, a delta of the input, the approval and its decision, then
//                                               the output or the error
//   file, source-url, data-…, and so on         the part itself
// A settled call comes without tool-input-available, because clients run their tools at that chunk. Long texts come in pieces.
// Only the type of a part is checked here; its content is checked with the chunks.
import { WHOLE } from './assemble.ts'
import { ChunkError } from './chunk.ts'
import { given, isFields } from './json.ts'
import type { Message } from './message.ts'

type Fields = { readonly [field: string]: unknown }
/** A chunk, provided that its part was valid. */
export type Condensed = Fields & { readonly type: string }

const PIECE = 65_536 // characters

/** Adds no `finish`, because a message does not say whether it has ended. */
export function condense({ id, parts, metadata }: Partial<Message>): Condensed[] {
  const start = { type: 'start', ...given({ messageId: id, messageMetadata: metadata }) }
  return [start, ...(parts ?? []).flatMap((part, index) => chunksOf(part, String(index)))]
}

export function chunksOf(part: Condensed, index: string): Condensed[] {
  const { type } = part
  if (type === 'step-start') return [{ type: 'start-step' }]
  if (type === 'text') return wordsOf(part, 'text', index)
  if (type === 'reasoning')
    return wordsOf(part, 'reasoning', typeof part['id'] === 'string' ? part['id'] : index)
  if (isCall(part)) return callOf(part)
  if (type.startsWith('data-') || Object.hasOwn(WHOLE, type)) return [part]
  throw new ChunkError(`Parts of the type ${type.slice(0, 64)} are not known`)
}

function wordsOf(
  { text, state, providerMetadata, citations }: Fields,
  kind: string,
  id: string,
): Condensed[] {
  return [
    { type: `${kind}-start`, id, ...given({ providerMetadata }) },
    ...(text === '' ? [] : piecesOf(text)).map((delta) => ({ type: `${kind}-delta`, id, delta })),
    ...(state === 'streaming' ? [] : [{ type: `${kind}-end`, id, ...given({ citations }) }]),
  ]
}

export function callOf(part: Condensed): Condensed[] {
  const { toolCallId, state, input, rawInput, inputEncoding, output, errorText, preliminary } = part
  const { toolMetadata, resultProviderMetadata: providerMetadata } = part
  const call = callFields(part)
  const start = (encoding = inputEncoding) => ({
    type: 'tool-input-start',
    ...call,
    ...given({ inputEncoding: encoding }),
  })
  const deltas = (text: unknown) =>
    piecesOf(text).map((inputTextDelta) => ({ type: 'tool-input-delta', toolCallId, inputTextDelta }))
  const whole = input === undefined ? [] : deltas(JSON.stringify(input))
  const result = { toolCallId, ...given({ toolMetadata, providerMetadata }) }
  switch (state) {
    case 'input-streaming':
      return [start(), ...(rawInput === undefined ? [] : deltas(rawInput))]
    case 'output-available':
      return [
        start(),
        ...whole,
        ...askedOf(part),
        { type: 'tool-output-available', ...result, output, ...given({ preliminary }) },
      ]
    case 'output-error': {
      if (typeof rawInput !== 'string')
        return [
          start(),
          ...askedOf(part),
          { ...call, type: 'tool-input-error', input, errorText, providerMetadata },
        ]
      const encoding = input === rawInput ? 'text' : undefined
      return [
        start(encoding),
        ...deltas(rawInput),
        ...askedOf(part),
        { type: 'tool-output-error', ...result, errorText },
      ]
    }
    default: {
      const denied = state === 'output-denied' ? [{ type: 'tool-output-denied', toolCallId }] : []
      const available = { type: 'tool-input-available', ...call, input }
      if (input === undefined && state !== 'input-available') return [start(), ...askedOf(part), ...denied]
      return [...(inputEncoding === undefined ? [] : [start()]), available, ...askedOf(part), ...denied]
    }
  }
}

export function isCall({ type }: { readonly type: string }): boolean {
  return type === 'dynamic-tool' || type.startsWith('tool-')
}

function callFields({
  type,
  toolCallId,
  toolName,
  title,
  toolMetadata,
  providerExecuted,
  callProviderMetadata,
}: Condensed) {
  const named =
    type === 'dynamic-tool' ? { toolName, dynamic: true } : { toolName: type.slice('tool-'.length) }
  const facts = given({ title, toolMetadata, providerExecuted, providerMetadata: callProviderMetadata })
  return { toolCallId, ...named, ...facts }
}

/** The approval of a call and its decision. */
export function askedOf({ toolCallId, approval }: Fields): Condensed[] {
  if (!isFields(approval)) return []
  const { id: approvalId, descriptor, requestReason, isAutomatic, signature, approved, reason } = approval
  const request = given({ approvalDescriptor: descriptor, reason: requestReason, isAutomatic, signature })
  const schema = 'inputSchemaInput' in approval ? { inputSchemaInput: approval['inputSchemaInput'] } : {}
  const response = { type: 'tool-approval-response', approvalId, approved, ...given({ reason }) }
  return [
    { type: 'tool-approval-request', toolCallId, approvalId, ...request, ...schema },
    ...(approved === undefined ? [] : [response]),
  ]
}

/** Keeps surrogate pairs together. Returns a value that is not text as it is; it is rejected later. */
export function piecesOf(text: unknown): unknown[] {
  if (typeof text !== 'string' || text.length <= PIECE) return [text]
  const isPair = /[\uD800-\uDBFF]/.test(text[PIECE - 1]!)
  const length = PIECE + (isPair ? 1 : 0)
  return [text.slice(0, length), ...piecesOf(text.slice(length))]
}
