// Reads the tool calls of an agent and their results. A result may arrive before TOOL_CALL_END. A closed call may be reopened until it has a
// result. After that, the same id starts a new call. Results of calls from earlier replies are ignored.
import { ChunkError, jsonTextFault, type ProviderMetadata } from '@fleetline/protocol'
import { shortenId, type AgUiEvent } from './parse-event.ts'
import type { ReplyCollector } from './reply-collector.ts'

type ReadCall = {
  /** In the reply. An agent may use an id again, for another call. */
  readonly id: string
  readonly toolName: string
  args: string
  isOpen: boolean
  hasResult: boolean
  encrypted?: ProviderMetadata
  /** Its result, if that comes before the end of its arguments. */
  early?: { readonly output: unknown }
}

export type CallsReader = {
  /** Takes an event TOOL_CALL_…. */
  readonly take: (event: AgUiEvent) => void
  readonly encrypt: (toolCallId: string, encrypted: ProviderMetadata) => void
  readonly findOpen: () => string | undefined
}

export function createCallsReader(collector: ReplyCollector): CallsReader {
  const calls = new Map<string, ReadCall>()
  let count = 0
  const start = (toolCallId: string, toolCallName: string) => {
    const known = calls.get(toolCallId)
    const before = known?.hasResult ? undefined : known
    if (before?.isOpen)
      throw new ChunkError(`TOOL_CALL_START: the call ${shortenId(toolCallId)} is open already`, {
        remedy: 'Send TOOL_CALL_END first',
      })
    collector.beginStep()
    if (!before) count += 1
    if (!before) collector.countCall()
    const id = known ? `${toolCallId}~${count}` : toolCallId
    const call = before ?? { id, toolName: toolCallName, args: '', isOpen: true, hasResult: false }
    calls.set(toolCallId, Object.assign(call, { isOpen: true }))
    collector.say({ type: 'tool-input-start', toolCallId: call.id, toolName: call.toolName, dynamic: true })
    if (call.args !== '')
      collector.say({ type: 'tool-input-delta', toolCallId: call.id, inputTextDelta: call.args })
  }
  const mustBeOpen = (type: string, id: string): ReadCall => {
    const call = calls.get(id)
    if (call?.isOpen) return call
    throw new ChunkError(`${type}: no call ${shortenId(id)} is open`, {
      remedy: 'Send TOOL_CALL_START first, with the same toolCallId',
    })
  }
  const settle = (call: ReadCall, output: unknown) => {
    if (!call.hasResult) collector.countResult()
    call.hasResult = true
    collector.say({
      type: 'tool-output-available',
      toolCallId: call.id,
      dynamic: true,
      output,
      ...describe(call),
    })
  }
  const end = (call: ReadCall) => {
    call.isOpen = false
    const input = inputOf(call.args)
    const { id: toolCallId, toolName, early } = call
    collector.say({
      type: 'tool-input-available',
      toolCallId,
      toolName,
      dynamic: true,
      input,
      ...describe(call),
    })
    if (early) settle(call, early.output)
  }
  return {
    take: ({ type, toolCallId, toolCallName, delta, content }) => {
      const id = String(toolCallId)
      if (type === 'TOOL_CALL_START') return start(id, String(toolCallName))
      if (type === 'TOOL_CALL_RESULT') {
        const call = calls.get(id)
        if (call?.isOpen) call.early = { output: content }
        else if (call) settle(call, content)
        return
      }
      const call = mustBeOpen(type, id)
      if (type === 'TOOL_CALL_END') return end(call)
      call.args += String(delta)
      collector.say({ type: 'tool-input-delta', toolCallId: call.id, inputTextDelta: String(delta) })
    },
    encrypt: (toolCallId, encrypted) => {
      const call = calls.get(toolCallId)
      if (call) call.encrypted = encrypted
    },
    findOpen: () => [...calls].find(([, { isOpen }]) => isOpen)?.[0],
  }
}

function describe({ encrypted }: ReadCall): { readonly providerMetadata?: ProviderMetadata } {
  return encrypted ? { providerMetadata: encrypted } : {}
}

/** The arguments as a value, or as they came if they are not JSON. Text stays as it came, so that it can be sent back. */
function inputOf(args: string): unknown {
  if (args.trim() === '') return {}
  if (jsonTextFault(args) !== undefined) return args
  try {
    const value: unknown = JSON.parse(args)
    return typeof value === 'string' ? args : value
  } catch {
    return args
  }
}
