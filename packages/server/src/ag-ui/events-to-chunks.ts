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
//   STATE_…, ACTIVITY_…                      data-… with an id: state-and-activities.ts
//   CUSTOM                                   data-NAME, transient
//   MESSAGES_SNAPSHOT                        its new messages after the last user message, unless the agent has streamed a part of its reply
//   RUN_FINISHED                             `message-metadata` (one model) or `data-usage` (several), then `finish`. `cancelled`: then `abort`.
//                                            An interrupt is refused: nobody can answer it yet
//   RUN_ERROR                                `message-metadata` or `data-usage`, then `error`
// The first step begins with the first text, reasoning or call. The next one begins when the agent continues after all calls of the step
// have results, because it has called its model again. A run with another id that says nothing is taken for a replay of an earlier run. If
// no other run follows, it ends the reply.
import { ChunkError, isFields, type Chunk } from '@fleetline/protocol'
import { createShorthandExpander } from './expand-shorthand.ts'
import { parseEvent, shortenId, typeOfEvent, type AgUiEvent } from './parse-event.ts'
import { createCallsReader } from './read-calls.ts'
import { createTextReader, type TextPrefix } from './read-text.ts'
import { eventsOfSnapshot } from './snapshot-events.ts'
import { createReplyCollector } from './reply-collector.ts'
import { createDocuments, dataTypeOf } from './state-and-activities.ts'
import { usageChunks } from './usage.ts'

/** Where an encrypted value of the agent's provider stands in `providerMetadata`. */
export const ENCRYPTED = 'ag-ui'

export type EventsToChunks = {
  /** The chunks that an event becomes. Throws a ChunkError if it is no event, or is not allowed at this point. */
  readonly take: (value: unknown) => Chunk[]
  /** The last chunks. Undefined: no run has ended. */
  readonly end: () => Chunk[] | undefined
}
/** What the agent was sent. */
type Asked = {
  readonly runId: string
  readonly state: unknown
  /** The ids of its messages. */
  readonly messages: Iterable<string>
}

export function createEventsToChunks(asked: Asked): EventsToChunks {
  const documents = createDocuments(asked.state)
  const collector = createReplyCollector(documents)
  const [texts, calls, expand] = [
    createTextReader(collector),
    createCallsReader(collector),
    createShorthandExpander(),
  ]
  const known = new Set(asked.messages)
  let [run, hasStarted, isOver]: [string | undefined, boolean, boolean] = [undefined, false, false]
  /** The end of a run of another name that said nothing. */
  let unspoken: AgUiEvent | undefined
  /** The reply comes in snapshots only, so far. */
  let isFromSnapshots = false

  const begin = (runId: string) => {
    if (run !== undefined)
      throw new ChunkError(`RUN_STARTED: the run ${shortenId(run)} has not ended`, {
        remedy: 'Send RUN_FINISHED first',
      })
    run = runId
    if (!hasStarted) collector.say({ type: 'start' })
    hasStarted = true
  }
  const finish = (event: AgUiEvent) => {
    const [message, call] = [texts.findOpen(), calls.findOpen()]
    const open = message ?? (call !== undefined && { id: call, end: 'TOOL_CALL_END' })
    if (open)
      throw new ChunkError(`RUN_FINISHED: ${shortenId(open.id)} is still open`, {
        remedy: `Send ${open.end} for it first`,
      })
    run = undefined
    if (event['runId'] !== asked.runId && !collector.hasSpoken()) unspoken = event
    else conclude(event)
  }
  const conclude = ({ outcome, usage }: AgUiEvent) => {
    const type = isFields(outcome) ? outcome['type'] : 'success'
    if (type === 'interrupt') throw new ChunkError(...INTERRUPT)
    if (type !== 'cancelled') collector.endStep()
    collector.say(...documents.flush({ isLast: true }), ...usageChunks(usage))
    collector.say(type === 'cancelled' ? CANCELLED : { type: 'finish', finishReason: 'stop' })
    isOver = true
  }
  const fail = ({ message, code, usage }: AgUiEvent) => {
    const text = String(message)
    const errorText = typeof code === 'string' && !text.startsWith('fleetline:') ? `${text} (${code})` : text // own-error.ts
    collector.say(...documents.flush({ isLast: true }), ...usageChunks(usage), { type: 'error', errorText })
    isOver = true
  }
  const encrypt = ({ subtype, entityId, encryptedValue }: AgUiEvent) => {
    const encrypted = { [ENCRYPTED]: { encryptedValue } }
    if (subtype === 'tool-call') calls.encrypt(String(entityId), encrypted)
    else if (subtype === 'message') collector.encryptLater(String(entityId), encrypted)
  }
  /** An agent that streams its reply, or a part of it, restates that here. One that does not may send a snapshot after each step. */
  const takeSnapshot = (messages: unknown) => {
    if (collector.hasSpoken() && !isFromSnapshots) return
    const { events, ids } = eventsOfSnapshot(messages, (id) => known.has(id))
    for (const id of ids) known.add(id)
    events.forEach(takeInRun)
    isFromSnapshots = collector.hasSpoken()
  }
  const takeInRun = (event: AgUiEvent): void => {
    const { type } = event
    const [, prefix] = SPEECH.exec(type) ?? []
    if (prefix === 'TOOL_CALL') return calls.take(event)
    if (prefix) return texts.take(prefix as TextPrefix, event)
    switch (type) {
      case 'RUN_STARTED':
        return begin(String(event['runId']))
      case 'RUN_FINISHED':
        return finish(event)
      case 'REASONING_ENCRYPTED_VALUE':
        return encrypt(event)
      case 'MESSAGES_SNAPSHOT':
        return takeSnapshot(event['messages'])
      case 'CUSTOM':
        return collector.say({
          type: dataTypeOf(String(event['name'])),
          data: event['value'],
          transient: true,
        })
      default:
        return documents.take(event)
    }
  }
  return {
    end: () => {
      if (isOver) return []
      if (!unspoken || run !== undefined) return undefined
      conclude(unspoken)
      return collector.take()
    },
    take: (value) => {
      const event = parseEvent(value)
      if (event?.type === 'RUN_ERROR') fail(event)
      else if (run === undefined && event?.type !== 'RUN_STARTED') throw misplacedError(typeOfEvent(value))
      else if (event) {
        isFromSnapshots &&= !isSpeech(event)
        expand(event).forEach(takeInRun)
      }
      return collector.take()
    },
  }
}

const SPEECH = /^(TEXT_MESSAGE|REASONING_MESSAGE|TOOL_CALL)_/
const CANCELLED: Chunk = { type: 'abort', reason: 'The agent has cancelled the run' }
const INTERRUPT = [
  'RUN_FINISHED: the agent waits for an answer to an interrupt. Fleetline cannot answer interrupts yet',
  { remedy: 'Let the agent finish without one' },
] as const

/** Whether the agent streams a part of its reply. */
function isSpeech({ type }: AgUiEvent): boolean {
  return SPEECH.test(type)
}

function misplacedError(type: string): ChunkError {
  return new ChunkError(`${shortenId(type)} came before RUN_STARTED`, { remedy: 'Send RUN_STARTED first' })
}
