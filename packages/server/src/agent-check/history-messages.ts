// What the logs of real conversations contain, in the form in which agents are sent it.
import type { Message, Metadata, Part } from '@fleetline/protocol'
import type { AgentCall } from '../agent/agent.ts'
import { summaryMessage } from '../turn/gather.ts'

export type Chapter = {
  /** Completes the sentence: a conversation has … */
  readonly what: string
  /** For an agent that cannot take it. */
  readonly remedy: string
  readonly messages: readonly Message[]
  readonly session?: Pick<AgentCall['session'], 'title' | 'metadata'>
}

const STEP: Part = { type: 'step-start' }
/** One red pixel. */
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

function text(said: string): Part {
  return { type: 'text', text: said }
}
function asked(id: string, ...parts: readonly Part[]): Message {
  return { id, role: 'user', parts }
}
function replied(id: string, parts: readonly Part[], metadata?: Metadata): Message {
  return { id, role: 'assistant', parts, ...(metadata !== undefined && { metadata }) }
}
function done(said: string): Part {
  return { ...text(said), state: 'done' }
}

const TOOLS_CHANGE =
  'Do not require that the agent still has every tool of the conversation: calls stay in the log when a tool is renamed or removed'

export const HISTORY: readonly Chapter[] = [
  {
    what: 'a summary as its first message',
    remedy:
      'Accept a conversation that begins with the summary of earlier messages, as a message of the user',
    messages: summaryMessage('The user plans a trip to Rome in May, and likes trains.', 12),
  },
  {
    what: 'a part without text (step-start)',
    remedy: 'Skip the parts that you do not use: not every part has a text',
    messages: [asked('q-step', text('I like trains.')), replied('a-step', [STEP, done('Then go by train.')])],
  },
  {
    what: 'a title and metadata',
    remedy: 'Accept metadata of the session and of messages, or ignore it',
    messages: [
      { ...asked('q-metadata', text('Where shall we begin?')), metadata: { page: '/trips/rome' } },
      replied('a-metadata', [done('With the train to Rome.')], {
        model: 'a-model',
        usage: { inputTokens: 12, outputTokens: 7, totalTokens: 19 },
      }),
    ],
    session: { title: 'A trip to Rome', metadata: { project: 7 } },
  },
  {
    what: 'a finished call of a tool',
    remedy: TOOLS_CHANGE,
    messages: [
      asked('q-tool', text('What is the weather in Rome?')),
      replied('a-tool', [
        STEP,
        {
          type: 'tool-get_weather',
          toolCallId: 'call-1',
          state: 'output-available',
          input: { city: 'Rome' },
          output: { celsius: 24, sky: 'clear' },
        },
        STEP,
        done('It has 24 degrees in Rome, and the sky is clear.'),
      ]),
    ],
  },
  {
    what: 'a finished call of a dynamic tool',
    remedy: TOOLS_CHANGE,
    messages: [
      asked('q-dynamic', text('Which trains go there?')),
      replied('a-dynamic', [
        STEP,
        {
          type: 'dynamic-tool',
          toolName: 'find_trains',
          toolCallId: 'call-2',
          state: 'output-available',
          input: { to: 'Rome' },
          output: ['08:10', '12:10'],
        },
        STEP,
        done('There are trains at 08:10 and at 12:10.'),
      ]),
    ],
  },
  {
    what: 'a call of a tool that was stopped',
    remedy: 'Pass the error of a call on as its result: the call ended without an output',
    messages: [
      asked('q-stopped-tool', text('Book the first one.')),
      replied('a-stopped-tool', [
        STEP,
        {
          type: 'tool-book_train',
          toolCallId: 'call-3',
          state: 'output-error',
          input: { at: '08:10' },
          errorText: 'stopped',
        },
      ]),
    ],
  },
  {
    what: 'a reply that was stopped',
    remedy: 'Accept replies that end in the middle of a word',
    messages: [
      asked('q-stopped', text('Tell me about the Colosseum.')),
      replied('a-stopped', [done('The Colosseum was built between the ye')]),
    ],
  },
  {
    what: 'a file',
    remedy: 'Leave out files that the model does not take, or describe them',
    messages: [
      asked(
        'q-file',
        { type: 'file', mediaType: 'image/png', filename: 'red.png', url: PIXEL },
        text('Which colour is this?'),
      ),
      replied('a-file', [done('It is red.')]),
    ],
  },
  {
    what: 'two messages of the user in a row',
    remedy: 'Accept several messages of the user in a row, or join them for a model that does not',
    messages: [asked('q-first', text('Wait.')), asked('q-second', text('I have another question.'))],
  },
]
