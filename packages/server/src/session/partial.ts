// What a turn that is stopped, or fails, had said, sealed: a message like any other, and legal input for the next turn, whose
// model takes no call without an end.
//
//   a part                                              becomes
//   a text or a reasoning that was not done             done, without the first half of a character
//   a call whose input grew                             output-error, with the input as far as it came
//   a call that had its input, or was allowed           output-error
//   a call about which somebody was asked               output-denied, and refused
//   a call that was refused                             output-denied
//   any other                                           stays as it is
// What lies behind a hole is not taken: readers elsewhere have not seen it either. Pure.
import {
  ChunkError,
  chunkOf,
  createAssembler,
  hasContent,
  jsonFault,
  MESSAGE_LIMITS,
  messageFault,
  type Assembler,
  type Part,
} from '@fleetline/protocol'
import type { Batch } from './chunks.ts'
import { draftOf, type MessageDraft } from './draft.ts'

const STOPPED = 'stopped'

/** Undefined: it had said nothing, or nothing that can be stored. */
export function partialOf(id: string, agent: string, batches: readonly Batch[]): MessageDraft | undefined {
  const said = assembled(id, batches)
  return said && draftOfSaid(said, agent)
}

/** The same, of all that was said. */
export function draftOfSaid(said: Assembler, agent: string): MessageDraft | undefined {
  const open = said.message()
  const message = { ...open, parts: open.parts.map(ended) }
  if (!hasContent(message) || messageFault(message) !== undefined) return undefined
  const draft = draftOf({ ...message, author: { kind: 'agent', id: agent } })
  return draft.bytes <= MESSAGE_LIMITS.replyBytes ? draft : undefined
}

/** Undefined: these are no chunks that this release knows. */
function assembled(id: string, batches: readonly Batch[]): Assembler | undefined {
  const assembler = createAssembler(id)
  let next = 0
  try {
    for (const { index, count, body } of batches) {
      if (index !== next) break
      next += count
      for (const chunk of JSON.parse(body) as unknown[]) assembler.push(chunkOf(chunk))
    }
  } catch (error) {
    if (error instanceof ChunkError || error instanceof SyntaxError) return undefined
    throw error
  }
  return assembler
}

function ended(part: Part): Part {
  if (part.type === 'text' || part.type === 'reasoning') return endedText(part)
  return part.type === 'dynamic-tool' || part.type.startsWith('tool-') ? endedCall(part) : part
}

function endedText(part: Part): Part {
  const text = String(part['text']).replace(/[\uD800-\uDBFF]$/, '')
  return { ...part, text, ...(part['state'] === 'streaming' && { state: 'done' }) }
}

function endedCall(part: Part): Part {
  const { rawInput: _rawInput, inputEncoding: _inputEncoding, ...call } = part
  const { state, input = {} } = call
  const approval = call['approval'] as { readonly approved?: boolean } | undefined
  const failed = { ...call, state: 'output-error', errorText: STOPPED }
  const denied = { ...call, state: 'output-denied' }
  switch (state) {
    case 'input-streaming':
      return { ...failed, input: jsonFault(input) === undefined ? input : {} } // models take no call without one
    case 'input-available':
      return failed
    case 'approval-requested':
      return { ...denied, approval: { ...approval, approved: false, reason: STOPPED } }
    case 'approval-responded':
      return approval?.approved ? failed : denied
    default:
      return part
  }
}
