// What closes all that is open in a message: pushed now, the message is legal input for a next turn, though nobody goes on
// with it. The chunks are ordinary ones, so that readers, assembler and what is stored agree.
//
//   what is open                                    its end
//   a text, a reasoning                             its end
//   a call whose input grows                        tool-input-error, with the input as far as it came
//   the same, left open by an earlier step          tool-output-error, since its input is out of reach
//   a call that has its input, or may go ahead      tool-output-error
//   a call about which somebody was asked           refused, then tool-output-denied
//   a call that was refused                         tool-output-denied
import type { Assembler } from './assemble.ts'
import type { Chunk } from './chunk.ts'
import { isFields, jsonFault } from './json.ts'
import type { OpenCall } from './tool-parts.ts'

const STOPPED = 'stopped'

export function closingOf(assembler: Pick<Assembler, 'open'>): Chunk[] {
  const { texts, reasonings, calls } = assembler.open()
  return [
    ...texts.map((id): Chunk => ({ type: 'text-end', id })),
    ...reasonings.map((id): Chunk => ({ type: 'reasoning-end', id })),
    ...calls.flatMap(closingOfCall),
  ]
}

function closingOfCall({ call: toolCallId, part, isInStep }: OpenCall): Chunk[] {
  const approval = isFields(part['approval']) ? part['approval'] : {}
  const failed = { type: 'tool-output-error', toolCallId, errorText: STOPPED } as const
  const denied = { type: 'tool-output-denied', toolCallId } as const
  switch (part['state']) {
    case 'input-streaming':
      return [isInStep ? { ...failed, type: 'tool-input-error', ...inputOf(part) } : failed]
    case 'input-available':
      return [failed]
    case 'approval-requested': {
      const approvalId = String(approval['id'])
      return [{ type: 'tool-approval-response', approvalId, approved: false, reason: STOPPED }, denied]
    }
    case 'approval-responded':
      return [approval['approved'] === true ? failed : denied]
    default:
      return []
  }
}

/** Providers take a call with some input only. */
function inputOf({ type, toolName, input = {} }: OpenCall['part']) {
  const name = type === 'dynamic-tool' ? toolName : String(type).slice('tool-'.length)
  return { toolName: String(name), input: jsonFault(input) === undefined ? input : {} }
}
