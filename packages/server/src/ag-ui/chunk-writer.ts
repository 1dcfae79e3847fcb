// Turns the AG-UI events of an agent into the chunks of its reply. Rejects events in an order that the protocol forbids, as AG-UI's own
// client does.
//
//   event                                    chunks
//   RUN_STARTED                              start
//   TEXT_MESSAGE_… of the assistant          text-start, text-delta, text-end. Messages of other roles are not part of the reply
//   REASONING_MESSAGE_…                      reasoning-start, reasoning-delta, reasoning-end
//   TOOL_CALL_START, _ARGS, _END             tool-input-start, tool-input-delta, tool-input-available, of a dynamic tool
//   TOOL_CALL_RESULT                         tool-output-available, if the call is in this reply
//   REASONING_ENCRYPTED_VALUE                providerMetadata of its text, reasoning or call
//   STATE_…, ACTIVITY_…                      data-… with an id: documents.ts
//   CUSTOM                                   data-NAME, transient
//   MESSAGES_SNAPSHOT                        the messages after the last user message, if the run has said nothing yet
//   RUN_FINISHED                             data-usage, finish. `cancelled`: abort. An interrupt is refused: nobody can answer it yet
//   RUN_ERROR                                data-usage, error
// A step of the reply begins with the first thing that is said, and again when something is said after the results of all calls: that is
// where the agent has called its model again. A run with another id that says nothing is a replay of the past.
import { ChunkError, isFields, jsonTextFault, type Chunk, type ProviderMetadata } from '@fleetline/protocol'
import { createDocuments } from './documents.ts'
import { createExpander } from './expand.ts'
import { knownEvent, type AgUiEvent } from './known-event.ts'
import { eventsOfSnapshot } from './snapshot-events.ts'
import { usageChunks } from './usage.ts'

/** Where an encrypted value of the agent's provider stands in `providerMetadata`. */
export const ENCRYPTED = 'ag-ui'

type Run = { readonly runId: string; readonly state: unknown }
type ReadCall = {
  readonly name: string
  args: string
  isOpen: boolean
  isSettled: boolean
  encrypted?: ProviderMetadata
  /** Its result, if that comes before the end of its arguments. */
  early?: { readonly output: unknown }
}
type Words = 'text' | 'reasoning'

export type ChunkWriter = {
  /** The chunks that an event becomes. Throws a ChunkError if it is no event, or is not allowed at this point. */
  readonly take: (value: unknown) => Chunk[]
}

/** `run`: what the agent was sent. */
export function createChunkWriter(run: Run): ChunkWriter {
  const expand = createExpander()
  const reply = createReply(run)
  return {
    take: (value) => {
      const event = knownEvent(value)
      if (!event) return []
      for (const one of expand(event)) reply.take(one)
      return reply.chunks()
    },
  }
}

function createReply({ runId, state }: Run) {
  const documents = createDocuments(state)
  const words = { text: new Set<string>(), reasoning: new Set<string>() } // that are open
  const others = new Set<string>() // open messages of other roles
  const calls = new Map<string, ReadCall>()
  const of: { run: string | undefined; hasStarted: boolean; hasSpoken: boolean } = {
    run: undefined,
    hasStarted: false,
    hasSpoken: false,
  }
  const step = { isOpen: false, called: 0, settled: 0 }
  let [out, held]: [Chunk[], (Chunk & { readonly id: string; readonly type: `${Words}-end` }) | undefined] = [
    [],
    undefined,
  ]

  /** The end of a text waits for the next event, because its encrypted value may follow it. */
  const release = () => {
    if (held) out.push(held)
    held = undefined
  }
  const say = (...chunks: readonly Chunk[]) => {
    release()
    if (of.hasStarted) out.push(...documents.flush())
    out.push(...chunks)
  }
  const beginStep = () => {
    of.hasSpoken = true
    if (step.isOpen && (step.settled === 0 || step.settled < step.called)) return
    say(...(step.isOpen ? [{ type: 'finish-step' } as const] : []), { type: 'start-step' })
    Object.assign(step, { isOpen: true, called: 0, settled: 0 })
  }
  const openWords = (kind: Words, id: string) => {
    mustNotBeOpen(words[kind], id)
    beginStep()
    words[kind].add(id)
    say({ type: `${kind}-start`, id })
  }
  const closeWords = (kind: Words, id: string) => {
    mustBeOpen(words[kind], kind, id)
    words[kind].delete(id)
    say()
    held = { type: `${kind}-end`, id }
  }
  const callOf = (id: string) => {
    const call = calls.get(id)
    if (!call?.isOpen) throw misplaced('tool call', id, 'is not open')
    return call
  }
  /** A call that was closed may begin again, until it has a result. */
  const openCall = (id: string, name: string) => {
    const before = calls.get(id)
    if (before?.isOpen || before?.isSettled) throw misplaced('tool call', id, 'has begun already')
    beginStep()
    const call = before ?? { name, args: '', isOpen: true, isSettled: false }
    calls.set(id, Object.assign(call, { isOpen: true }))
    if (!before) step.called += 1
    say({ type: 'tool-input-start', toolCallId: id, toolName: call.name, dynamic: true })
    if (call.args !== '') say({ type: 'tool-input-delta', toolCallId: id, inputTextDelta: call.args })
  }
  const closeCall = (toolCallId: string) => {
    const call = callOf(toolCallId)
    call.isOpen = false
    const input = inputOf(call.args)
    const described = call.encrypted && { providerMetadata: call.encrypted }
    say({ type: 'tool-input-available', toolCallId, toolName: call.name, dynamic: true, input, ...described })
    if (call.early) settleCall(toolCallId, call.early.output)
  }
  const settleCall = (toolCallId: string, output: unknown) => {
    const call = calls.get(toolCallId)
    if (!call) return // of an earlier reply
    if (call.isOpen) return void (call.early = { output })
    if (!call.isSettled) step.settled += 1
    call.isSettled = true
    const described = call.encrypted && { providerMetadata: call.encrypted }
    say({ type: 'tool-output-available', toolCallId, dynamic: true, output, ...described })
  }
  const encrypt = ({ subtype, entityId, encryptedValue }: AgUiEvent) => {
    const encrypted = { [ENCRYPTED]: { encryptedValue } }
    const call = subtype === 'tool-call' ? calls.get(String(entityId)) : undefined
    if (call) call.encrypted = encrypted
    else if (subtype === 'message' && held?.id === entityId) held = { ...held!, providerMetadata: encrypted }
  }
  const begin = (event: AgUiEvent) => {
    if (of.run !== undefined) throw new ChunkError(`RUN_STARTED: the run ${of.run} has not ended`)
    of.run = String(event['runId'])
    if (!of.hasStarted) say({ type: 'start' })
    of.hasStarted = true
  }
  const mustBeOver = () => {
    const [open] = [...words.text, ...words.reasoning, ...others, ...openCalls(calls)]
    if (open !== undefined)
      throw new ChunkError(`RUN_FINISHED: ${open.slice(0, 64)} is still open. Send its end event first`)
  }
  const finish = ({ outcome, usage, runId: ended }: AgUiEvent) => {
    mustBeOver()
    of.run = undefined
    if (ended !== runId && !of.hasSpoken) return
    const type = isFields(outcome) ? outcome['type'] : 'success'
    if (type === 'interrupt')
      throw new ChunkError(
        'RUN_FINISHED: the agent waits for an interrupt to be answered. Fleetline cannot answer interrupts yet. Let the agent finish without one',
      )
    const ends: Chunk[] =
      type === 'cancelled'
        ? [{ type: 'abort', reason: 'The agent has cancelled the run' }]
        : [
            ...(step.isOpen ? [{ type: 'finish-step' } as const] : []),
            { type: 'finish', finishReason: 'stop' },
          ]
    say(...documents.flush({ isLast: true }), ...usageChunks(usage), ...ends)
  }
  const fail = ({ message, code, usage }: AgUiEvent) => {
    const errorText = typeof code === 'string' ? `${String(message)} (${code})` : String(message)
    say(...documents.flush({ isLast: true }), ...usageChunks(usage), { type: 'error', errorText })
  }
  const take = (event: AgUiEvent): void => {
    const { type, messageId, toolCallId, delta } = event
    const [id, call] = [String(messageId), String(toolCallId)]
    const text = typeof delta === 'string' ? delta : ''
    if (type === 'RUN_ERROR') return fail(event)
    if (type === 'RUN_STARTED') return begin(event)
    if (of.run === undefined) throw new ChunkError(`${type}: the first event of a run is RUN_STARTED`)
    switch (type) {
      case 'RUN_FINISHED':
        return finish(event)
      case 'TEXT_MESSAGE_START':
        mustNotBeOpen(others, id)
        if ((event['role'] ?? 'assistant') === 'assistant') return openWords('text', id)
        mustNotBeOpen(words.text, id)
        return void others.add(id)
      case 'TEXT_MESSAGE_CONTENT':
        if (others.has(id)) return undefined
        mustBeOpen(words.text, 'text message', id)
        return say({ type: 'text-delta', id, delta: text })
      case 'TEXT_MESSAGE_END':
        return others.delete(id) ? undefined : closeWords('text', id)
      case 'REASONING_MESSAGE_START':
        return openWords('reasoning', id)
      case 'REASONING_MESSAGE_CONTENT':
        mustBeOpen(words.reasoning, 'reasoning message', id)
        return say({ type: 'reasoning-delta', id, delta: text })
      case 'REASONING_MESSAGE_END':
        return closeWords('reasoning', id)
      case 'REASONING_ENCRYPTED_VALUE':
        return encrypt(event)
      case 'TOOL_CALL_START':
        return openCall(call, String(event['toolCallName']))
      case 'TOOL_CALL_ARGS':
        callOf(call).args += text
        return say({ type: 'tool-input-delta', toolCallId: call, inputTextDelta: text })
      case 'TOOL_CALL_END':
        return closeCall(call)
      case 'TOOL_CALL_RESULT':
        return settleCall(call, event['content'])
      case 'MESSAGES_SNAPSHOT':
        if (!of.hasSpoken) eventsOfSnapshot(event['messages']).forEach(take)
        return undefined
      case 'CUSTOM':
        return say({ type: `data-${String(event['name'])}`, data: event['value'], transient: true })
      default:
        return documents.take(event)
    }
  }
  return {
    take,
    chunks: (): Chunk[] => {
      const chunks = out
      out = []
      return chunks
    },
  }
}

function openCalls(calls: ReadonlyMap<string, ReadCall>): string[] {
  return [...calls].filter(([, { isOpen }]) => isOpen).map(([id]) => id)
}

function mustBeOpen(open: ReadonlySet<string>, what: string, id: string): void {
  if (!open.has(id)) throw misplaced(what, id, 'is not open')
}

function mustNotBeOpen(open: ReadonlySet<string>, id: string): void {
  if (open.has(id)) throw misplaced('message', id, 'is open already')
}

function misplaced(what: string, id: string, how: string): ChunkError {
  return new ChunkError(`The ${what} ${id.slice(0, 64)} ${how}`)
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
