// Finishes the message of a turn that was stopped or has failed. The result is a message like any other. It is also valid
// input for the next turn: models reject tool calls without a result.
//
//   a part                                              becomes
//   a text or reasoning that was still streaming        done, without a trailing half of a character
//   a tool call whose input was still streaming         output-error, with the input received so far
//   a tool call with its input, or approved             output-error
//   a tool call that waits for approval                 output-denied, with the approval refused
//   a tool call whose approval was refused              output-denied
//   any other                                           unchanged
// Chunks after a gap are left out: readers on other pods have not seen them either. Pure.
import {
  ChunkError,
  chunkOf,
  createAssembler,
  hasContent,
  isCall,
  jsonFault,
  MESSAGE_LIMITS,
  messageFault,
  type Assembler,
  type Part,
} from '@fleetline/protocol'
import type { Batch } from './chunks.ts'
import { draftOf, type MessageDraft } from './draft.ts'

const STOPPED = 'stopped'

/** Undefined: the agent has said nothing, or nothing that can be stored. */
export function partialOf(id: string, agent: string, batches: readonly Batch[]): MessageDraft | undefined {
  const said = assembled(id, batches)
  return said && draftOfSaid(said, agent)
}

/** The same for chunks that are already assembled. */
export function draftOfSaid(said: Assembler, agent: string): MessageDraft | undefined {
  const open = said.message()
  const message = { ...open, parts: open.parts.map(ended) }
  if (!hasContent(message) || messageFault(message) !== undefined) return undefined
  const draft = draftOf({ ...message, author: { kind: 'agent', id: agent } })
  return draft.bytes <= MESSAGE_LIMITS.replyBytes ? draft : undefined
}

/** Undefined: this release does not know these chunks. */
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
  return isCall(part) ? endedCall(part) : part
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
      return { ...failed, input: jsonFault(input) === undefined ? input : {} } // models reject a call without an input
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
