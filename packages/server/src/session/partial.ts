// What a turn that is stopped had said, sealed: its open parts are closed by the chunks that its agent would have closed them
// with, so that it is a message like any other, and legal input for the next turn. What lies behind a hole is not taken:
// readers elsewhere have not seen it either. Pure.
import {
  createAssembler,
  hasContent,
  MESSAGE_LIMITS,
  messageFault,
  type Chunk,
  type Message,
} from '@fleetline/protocol'
import type { Batch } from './chunks.ts'
import { draftOf, type Draft } from './draft.ts'

/** Undefined: it had said nothing, or nothing that can be stored. */
export function partialOf(id: string, agent: string, batches: readonly Batch[]): Draft | undefined {
  const message = sealed(id, batches)
  if (!hasContent(message) || messageFault(message) !== undefined) return undefined
  const draft = draftOf({ ...message, author: { kind: 'agent', id: agent } })
  return draft.bytes <= MESSAGE_LIMITS.replyBytes ? draft : undefined
}

function sealed(id: string, batches: readonly Batch[]): Message {
  const assembler = createAssembler(id)
  let next = 0
  for (const { index, count, body } of batches) {
    if (index !== next) break
    next += count
    for (const chunk of JSON.parse(body) as Chunk[]) assembler.push(chunk)
  }
  assembler.closing().forEach(assembler.push)
  return assembler.message()
}
