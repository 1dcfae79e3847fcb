// A call of an agent that speaks AG-UI: what it is sent (`RunAgentInput`), and how its events become chunks. The run has the id of the turn
// with the number of the attempt, because each request is a run of its own. What AG-UI has no field for is in `forwardedProps.fleetline`.
import { ChunkError, jsonTextFault } from '@fleetline/protocol'
import { createEventsToChunks, type EventsToChunks } from '../ag-ui/events-to-chunks.ts'
import { lastState } from '../ag-ui/state-and-activities.ts'
import { messagesForAgent, type AgUiMessage } from '../ag-ui/messages.ts'
import { AgentFault } from './fault.ts'
import { ChunkText, LIFE, type AgentAnswer, type AgentCall } from './agent.ts'

/** What an agent is sent. */
export type AgUiInput = {
  readonly threadId: string
  readonly runId: string
  readonly protocolVersion: '1.0'
  readonly messages: readonly AgUiMessage[]
  /** What the agent has left in its last reply. */
  readonly state: unknown
  readonly tools: readonly []
  readonly context: readonly []
  readonly forwardedProps: { readonly fleetline: Omit<AgUiCall, 'id' | 'messages'> }
}
/** The parts of a call that are sent. */
type AgUiCall = Omit<AgentCall, 'signal' | 'deadlineMs'>

export function agUiInputOf({
  id,
  messages,
  turn,
  trigger,
  messageId,
  session,
  user,
  agent,
}: AgUiCall): AgUiInput {
  const replied = messageId === undefined ? {} : { messageId }
  const author = user === undefined ? {} : { user }
  return {
    threadId: id,
    runId: runIdOf({ turn }),
    protocolVersion: '1.0',
    messages: messages.flatMap((message) => dropOpenCalls(messagesForAgent(message))),
    state: lastState(messages) ?? {},
    tools: [],
    context: [],
    forwardedProps: { fleetline: { trigger, ...replied, turn, session, ...author, agent } },
  }
}

/** Turns the texts of events into chunks, one at a time as they come. */
export async function* agUiChunks(
  texts: AgentAnswer,
  call: Pick<AgUiCall, 'turn' | 'messages'>,
): AgentAnswer {
  const reader = readerFor(call)
  for await (const one of texts)
    if (one instanceof ChunkText) yield* chunksOrLife(reader.take(parseText(one.text)))
    else yield one
  yield* lastChunks(reader)
}

/**
 * For agents in code: turns AG-UI events, such as a stream of another library, into chunks.
 */
export async function* fromAgUi(
  events: AsyncIterable<{ readonly type: string }>,
  call: Pick<AgUiCall, 'turn' | 'messages'>,
): AgentAnswer {
  const reader = readerFor(call)
  for await (const event of events) yield* chunksOrLife(reader.take(event))
  yield* lastChunks(reader)
}

function lastChunks(reader: EventsToChunks) {
  const chunks = reader.end()
  if (chunks) return chunks
  throw new AgentFault('incomplete', 'The stream of the agent ended before RUN_FINISHED or RUN_ERROR', {
    isFinal: false,
  })
}

function readerFor({ turn, messages }: Pick<AgUiCall, 'turn' | 'messages'>): EventsToChunks {
  const ids = messages.flatMap(messagesForAgent).map(({ id }) => id)
  return createEventsToChunks({ runId: runIdOf({ turn }), state: lastState(messages), messages: ids })
}

function runIdOf({ turn: { id, attempt } }: Pick<AgUiCall, 'turn'>): string {
  return `${id}-${attempt}`
}

/** An event that becomes no chunk is a sign of life. */
function chunksOrLife<Chunk>(chunks: readonly Chunk[]): readonly (Chunk | typeof LIFE)[] {
  return chunks.length > 0 ? chunks : [LIFE]
}

/** Without activities, which are for front ends, and without calls that have no result, which most models reject. */
function dropOpenCalls(messages: readonly AgUiMessage[]): AgUiMessage[] {
  const results = new Set(messages.map(({ toolCallId }) => toolCallId))
  return messages.flatMap((message) => {
    if (message.role === 'activity') return []
    const { toolCalls, ...rest } = message
    if (!Array.isArray(toolCalls)) return [message]
    const kept = (toolCalls as readonly { readonly id: string }[]).filter(({ id }) => results.has(id))
    if (kept.length > 0) return [{ ...rest, toolCalls: kept }]
    return rest['content'] === undefined ? [] : [rest]
  })
}

function parseText(text: string): unknown {
  const fault = jsonTextFault(text)
  if (fault !== undefined) throw new ChunkError(`An event is ${fault}`)
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ChunkError('An event is not JSON', { cause })
  }
}
