// What a turn that is stopped, or fails, had said, sealed: its open parts are closed by the chunks that its agent would have closed them
// with, so that it is a message like any other, and legal input for the next turn. What lies behind a hole is not taken:
// readers elsewhere have not seen it either. Neither is the first half of a character whose second one was not said. Pure.
import {
  ChunkError,
  chunkOf,
  closingOf,
  createAssembler,
  hasContent,
  MESSAGE_LIMITS,
  messageFault,
  type Assembler,
  type Part,
} from '@fleetline/protocol'
import type { Batch } from './chunks.ts'
import { draftOf, type Draft } from './draft.ts'

/** Undefined: it had said nothing, or nothing that can be stored. */
export function partialOf(id: string, agent: string, batches: readonly Batch[]): Draft | undefined {
  const said = assembled(id, batches)
  return said && sealed(said, agent)
}

/** The same, of all that was said: nothing is to be said after that. */
export function sealed(said: Assembler, agent: string): Draft | undefined {
  closingOf(said).forEach(said.push)
  const open = said.message()
  const message = { ...open, parts: open.parts.map(wellFormed) }
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

function wellFormed(part: Part): Part {
  return typeof part['text'] === 'string'
    ? { ...part, text: part['text'].replace(/[\uD800-\uDBFF]$/, '') }
    : part
}
