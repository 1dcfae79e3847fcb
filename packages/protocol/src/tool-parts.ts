// The tool calls of a message that is being assembled. Each is a part: of type `tool-NAME`, or of type `dynamic-tool` with the
// name as a field.
//
//   chunk                      changes this part                                      the part's state becomes
//   tool-input-start           of the same call and kind in this step, or a new one   input-streaming, input dropped
//   tool-input-delta           the same; rejected without a start                     input-streaming, rawInput grows
//   tool-input-available       the same                                               input-available
//   tool-input-error           of the same call in this step, or a new one            output-error
//   tool-approval-request      of the same call in this step, or its newest           approval-requested
//   tool-approval-response     the part with the approval of that id                  approval-responded
//   tool-output-available      as for a request                                       output-available
//   tool-output-error          as for a request                                       output-error
//   tool-output-denied         as for a request                                       output-denied
// The last five are rejected without their part. A part keeps its title, metadata, who runs the tool, and the approval with its
// decision; everything else comes from the last chunk. The input of a call that still grows is the partial value of its text. It
// is computed only when somebody reads the message, because a text may grow a hundred thousand times.
import {
  ChunkError,
  type ApprovalRequest,
  type ApprovalResponse,
  type ToolChunk,
  type ToolInputDelta,
  type ToolInputStart,
  type ToolOutput,
} from './chunk.ts'
import { given, isFields } from './json.ts'
import { partialJson } from './partial-json.ts'

type Fields = Record<string, unknown>
type Placed = { readonly part: Fields; readonly at: number }
type InputChunk = Exclude<Extract<ToolChunk, { readonly toolName: string }>, ToolOutput>
type Called = Pick<InputChunk, 'toolCallId' | 'toolName' | 'dynamic'>
type Growing = { readonly start: ToolInputStart; readonly text: string }

type ToolParts = {
  readonly push: (chunk: ToolChunk) => void
  /** A step begins after the existing parts. */
  readonly startStep: () => void
  /** Forgets parts that were removed, and all growing inputs. */
  readonly forget: (gone: ReadonlySet<Fields>) => void
  /** Brings every input up to date. */
  readonly look: () => void
}

/** Fields that the next chunk clears. */
const FORGOTTEN = {
  input: undefined,
  output: undefined,
  errorText: undefined,
  rawInput: undefined,
  inputEncoding: undefined,
  preliminary: undefined,
}
const DYNAMIC = 'dynamic-tool'

export function createToolParts(parts: Fields[]): ToolParts {
  const placed = new Map<unknown, Placed[]>() // by call id, in the order of the message
  const growing = new Map<string, Growing>() // by call id
  const asked = new Map<unknown, Placed[]>() // by approval id, in the order of the message
  const unread = new Map<Fields, Growing>() // grown since their input was last computed
  let stepFrom = 0

  const inStep = (call: string, isFit: (part: Fields) => boolean = () => true) => {
    const all = placed.get(call) ?? []
    let found: Placed | undefined
    for (let n = all.length - 1; n >= 0 && all[n]!.at >= stepFrom; n -= 1)
      if (isFit(all[n]!.part)) found = all[n]
    return found
  }
  const newest = (call: string) => inStep(call) ?? placed.get(call)?.at(-1)
  const look = (part: Fields) => {
    const grown = unread.get(part)
    if (grown) set(part, { input: inputOf(grown) })
    unread.delete(part)
    return part
  }
  const found = (type: string, one: Placed | undefined) => {
    if (one) return look(one.part)
    throw new ChunkError(`${type}: no call of a tool has its id`)
  }
  const put = ({ toolCallId, toolName, dynamic = false }: Called, fields: Fields): Fields => {
    const named = dynamic ? { type: DYNAMIC, toolName } : { type: `tool-${toolName}` }
    const before = inStep(toolCallId, (one) => isDynamic(one) === dynamic)?.part
    const part = before ?? { ...named, toolCallId }
    if (!before) {
      insert(placed, toolCallId, { part, at: parts.length })
      parts.push(part)
    }
    unread.delete(part)
    set(part, { ...FORGOTTEN, ...named, ...fields })
    if (!before && dynamic) delete part['rawInput'] // as the AI SDK does
    return part
  }
  const grow = ({ type, toolCallId, inputTextDelta }: ToolInputDelta) => {
    const before = growing.get(toolCallId)
    if (!before) throw new ChunkError(`${type}: no tool-input-start came for its call`)
    const grown = { ...before, text: before.text + inputTextDelta }
    growing.set(toolCallId, grown)
    const { inputEncoding, title, toolMetadata } = grown.start
    const fields = { state: 'input-streaming', inputEncoding, rawInput: grown.text }
    unread.set(put(grown.start, { ...fields, ...given({ title, toolMetadata }) }), grown)
  }
  const request = (one: Placed | undefined, chunk: ApprovalRequest) => {
    const part = found(chunk.type, one)
    remove(asked, approvalOf(part)?.['id'], part)
    insert(asked, chunk.approvalId, one!)
    set(part, requested(chunk))
  }
  const push = (chunk: ToolChunk) => {
    switch (chunk.type) {
      case 'tool-input-start':
        growing.set(chunk.toolCallId, { start: chunk, text: '' })
        return void put(chunk, inputFields(chunk))
      case 'tool-input-delta':
        return grow(chunk)
      case 'tool-input-available':
        return void put(chunk, inputFields(chunk))
      case 'tool-input-error': {
        const before = inStep(chunk.toolCallId)
        return void put({ ...chunk, ...(before && { dynamic: isDynamic(before.part) }) }, inputFields(chunk))
      }
      case 'tool-approval-request':
        return request(newest(chunk.toolCallId), chunk)
      case 'tool-approval-response':
        return respond(found(chunk.type, asked.get(chunk.approvalId)?.[0]), chunk)
      case 'tool-output-available':
      case 'tool-output-error':
        return settle(found(chunk.type, newest(chunk.toolCallId)), chunk)
      case 'tool-output-denied':
        return set(found(chunk.type, newest(chunk.toolCallId)), { state: 'output-denied' })
    }
  }
  return {
    push,
    startStep: () => void (stepFrom = parts.length),
    forget: (gone) => {
      growing.clear()
      for (const part of gone) {
        unread.delete(part)
        shorten(placed, part['toolCallId'], gone)
        shorten(asked, approvalOf(part)?.['id'], gone)
      }
    },
    look: () => [...unread.keys()].forEach(look),
  }
}

/** The fields that a part gets from a chunk with its input. */
function inputFields(chunk: InputChunk): Fields {
  const { providerMetadata, title, toolMetadata, providerExecuted } = chunk
  const facts = given({ toolMetadata, providerExecuted })
  if (chunk.type === 'tool-input-error') {
    const { input, errorText } = chunk
    const result = given({ resultProviderMetadata: providerMetadata })
    return { state: 'output-error', input, errorText, ...facts, ...result }
  }
  const call = given({ title, callProviderMetadata: providerMetadata })
  return chunk.type === 'tool-input-start'
    ? { state: 'input-streaming', inputEncoding: chunk.inputEncoding, ...facts, ...call }
    : { state: 'input-available', input: chunk.input, ...facts, ...call }
}

function settle(part: Fields, chunk: ToolOutput): void {
  const { toolMetadata, providerExecuted, providerMetadata: resultProviderMetadata } = chunk
  const facts = given({ toolMetadata, providerExecuted, resultProviderMetadata })
  const { input, rawInput } = part
  if (chunk.type === 'tool-output-available') {
    const { output, preliminary } = chunk
    return set(part, { ...FORGOTTEN, state: 'output-available', input, output, preliminary, ...facts })
  }
  const { errorText } = chunk
  const raw = isDynamic(part) ? {} : { rawInput }
  return set(part, { ...FORGOTTEN, state: 'output-error', input, errorText, ...raw, ...facts })
}

function requested(chunk: ApprovalRequest): Fields {
  const { approvalId: id, approvalDescriptor, reason: requestReason, isAutomatic, signature } = chunk
  const approval = {
    id,
    ...given({ descriptor: approvalDescriptor ?? undefined, requestReason, signature }),
    ...('inputSchemaInput' in chunk && { inputSchemaInput: chunk.inputSchemaInput }),
    ...(isAutomatic && { isAutomatic }),
  }
  return { state: 'approval-requested', approval }
}

function respond(part: Fields, chunk: ApprovalResponse): void {
  const { approved, reason, providerExecuted, providerMetadata: callProviderMetadata } = chunk
  const approval = { ...approvalOf(part), approved, ...given({ reason }) }
  set(part, { state: 'approval-responded', approval, ...given({ providerExecuted, callProviderMetadata }) })
}

function inputOf({ start, text }: Growing): unknown {
  return start.inputEncoding === 'text' ? text : partialJson(text)
}

function approvalOf({ approval }: Fields): Fields | undefined {
  return isFields(approval) ? approval : undefined
}

function isDynamic({ type }: Fields): boolean {
  return type === DYNAMIC
}

/** Inserts in the order of the message, which is nearly always at the end. */
function insert(lists: Map<unknown, Placed[]>, key: string, one: Placed): void {
  const list = lists.get(key) ?? []
  const after = list.findLastIndex(({ at }) => at < one.at)
  list.splice(after + 1, 0, one)
  lists.set(key, list)
}

function remove(lists: Map<unknown, Placed[]>, key: unknown, part: Fields): void {
  const list = lists.get(key)?.filter((one) => one.part !== part) ?? []
  if (list.length === 0) lists.delete(key)
  else lists.set(key, list)
}

/** The parts that are gone were the last ones. */
function shorten(lists: Map<unknown, Placed[]>, key: unknown, gone: ReadonlySet<Fields>): void {
  const list = lists.get(key) ?? []
  while (list.length > 0 && gone.has(list.at(-1)!.part)) list.pop()
  if (list.length === 0) lists.delete(key)
}

/** Deletes fields whose value is undefined. */
function set(part: Fields, fields: Fields): void {
  for (const [name, value] of Object.entries(fields))
    if (value === undefined) delete part[name]
    else part[name] = value
}
