// Explains to the author of an agent why a pod would not store its reply, and what to do. The first row that fits counts.
import { MESSAGE_LIMITS } from '@fleetline/protocol'
import { AG_UI_TYPES, PLAIN, TYPES } from '../agent/answer.ts'
import type { Protocol } from '../agent/settings.ts'
import { excerptOf } from './excerpt.ts'
import type { Problem } from './finding.ts'
import type { Heard } from './probe.ts'
import type { AnswerHead } from './watch.ts'

type Failed = Pick<Heard, 'head' | 'fault' | 'protocol' | 'received' | 'isKnown'> &
  Partial<Pick<Heard, 'reply' | 'chunks'>>
type Seen = {
  readonly code: string
  /** What the pod says. */
  readonly message: string
  /** What the pod says to do. Its message ends with it. */
  readonly remedy: string | undefined
  readonly head: AnswerHead | undefined
  readonly chunks: number
  readonly protocol: Protocol
  /** The beginning of what the agent sent, or of the chunk that is wrong. */
  readonly received: string
  readonly isKnown: boolean
}
type Cause = {
  readonly code: string
  readonly fits?: (seen: Seen) => boolean
  /** Default: what the pod says. */
  readonly found?: (seen: Seen) => string
  readonly remedy: string | ((seen: Seen) => string)
}

const SECRET =
  'Give the agent the secret that signs these calls, let it check the signature over the body as it came, and correct a clock that is more than five minutes off'
const LOG = 'Look into the log of the agent'
const EVENTS =
  'Send the events of AG-UI in their order, each as the data of a server-sent event: RUN_STARTED, TEXT_MESSAGE_START, TEXT_MESSAGE_CONTENT, TEXT_MESSAGE_END, RUN_FINISHED'
const CHUNKS =
  "Send the chunks of the AI SDK's UI message stream in their order, one JSON object per line or event: start, text-start, text-delta, text-end, finish. Data of your own goes into data-… chunks"

const WHOLE = 'Answer with {"text": "…"}, or with one message of the role assistant with its parts'
const SOONER =
  'Answer sooner. While the agent works, send a comment line in an event stream; or raise FLEETLINE_AGENT_FIRST_MS and FLEETLINE_AGENT_SILENCE_MS on the pods, and --timeout here'
/** The codes of a connection that the other side has closed. */
const CLOSED = /UND_ERR_SOCKET|ECONNRESET|EPIPE/

const says = (words: RegExp) => (seen: Seen) => words.test(seen.message)
const statusIs =
  (...all: readonly number[]) =>
  ({ head }: Seen) =>
    all.includes(head?.status ?? 0)
const counted = (chunks: number) => (chunks === 1 ? '1 valid chunk' : `${chunks} valid chunks`)
const quoted = ({ received }: Seen) => after(': ', excerptOf(received))
const withReceived = (found: string, { received }: Seen) =>
  `${found}${after('. Received: ', excerptOf(received))}`
const after = (words: string, text: string | undefined) => (text === undefined ? '' : `${words}${text}`)
const statusOf = (seen: Seen) => `The agent answered with status ${seen.head?.status}${quoted(seen)}`
/** The agent fails by its status, or by what it says in a stream. */
const statusOrMessage = (seen: Seen) => ((seen.head?.status ?? 0) >= 400 ? statusOf(seen) : seen.message)
const isOpenAi = ({ received }: Seen) => /"choices"\s*:/.test(received)

function isAgUi({ protocol }: Seen): boolean {
  return protocol === 'ag-ui'
}
function typeFound(seen: Seen): string {
  return `The agent answered with the content type ${seen.head?.type.slice(0, 60)}${quoted(seen)}`
}
/** What the pod says about a chunk, and the chunk. */
function chunkFound(seen: Seen): string {
  const { chunks, message } = seen
  if (message === NO_TYPE) {
    const which = chunks === 0 ? 'The first chunk' : `After ${counted(chunks)}: the next one`
    return `${which} has no "type"${quoted(seen)}`
  }
  return withReceived(`After ${counted(chunks)}: ${message}`, seen)
}
const NO_TYPE = 'A chunk has a type'

const CAUSES: readonly Cause[] = [
  {
    code: 'unreachable',
    fits: says(/ECONNREFUSED/),
    remedy: 'Start the agent, and check that the URL has the host and port on which it listens',
  },
  {
    code: 'unreachable',
    fits: says(/ENOTFOUND|EAI_AGAIN|ENODATA|ETIMEOUT/),
    remedy: 'Correct the host of the URL: its name has no address here',
  },
  {
    code: 'unreachable',
    fits: says(/CERT|SIGNED|SIGNATURE/),
    remedy: 'Give the server a certificate for this host that pods trust',
  },
  {
    code: 'unreachable',
    fits: says(/SSL|EPROTO/),
    remedy: 'Correct the scheme or the port of the URL: the server does not speak TLS there',
  },
  {
    code: 'unreachable',
    fits: (seen) => seen.isKnown && CLOSED.test(seen.message),
    found: ({ message }) =>
      `The agent closed the connection before it answered (${CLOSED.exec(message)![0]})`,
    remedy: `${LOG}: it may have failed at this request, or its process has ended`,
  },
  {
    code: 'unreachable',
    remedy: `${LOG}, and of proxies and firewalls on the way: the connection was closed, or never accepted`,
  },
  {
    code: 'agent_refused',
    fits: statusIs(401, 403),
    found: (seen) => `The agent rejected a signed request, with status ${seen.head?.status}${quoted(seen)}`,
    remedy: SECRET,
  },
  {
    code: 'agent_refused',
    fits: statusIs(404),
    found: statusOf,
    remedy: 'Correct the path of the URL: the server has no route there',
  },
  { code: 'agent_refused', fits: statusIs(405), found: statusOf, remedy: 'Let the route accept POST' },
  {
    code: 'agent_refused',
    fits: statusIs(413),
    found: statusOf,
    remedy: 'Raise the limit for the body of a request: a conversation is sent with up to 2 MiB',
  },
  {
    code: 'agent_refused',
    fits: ({ head }) => head !== undefined && head.status >= 300 && head.status < 400,
    found: ({ head }) => `The agent redirects to ${head?.location ?? 'nowhere'}, with status ${head?.status}`,
    remedy: 'Register the URL that answers by itself: pods do not follow redirects',
  },
  {
    code: 'agent_refused',
    fits: (seen) => statusIs(400, 422)(seen) && !isAgUi(seen),
    found: statusOf,
    remedy: `If the agent speaks AG-UI, add --protocol ag-ui (in code: protocol). Otherwise find in the agent's log why it rejected the request`,
  },
  {
    code: 'agent_refused',
    found: statusOf,
    remedy: `${LOG}. Answer with status 200; a pod does not call again after this status, and the turn fails`,
  },
  {
    code: 'rate_limited',
    found: statusOrMessage,
    remedy:
      'Check again later, or raise the limit of the agent or of its model. A pod would wait and call again',
  },
  {
    code: 'agent_error',
    fits: statusIs(502, 503, 504),
    found: statusOf,
    remedy: `${LOG}, and of the proxy in front of it, which may not reach it`,
  },
  {
    code: 'agent_error',
    fits: isAgUi,
    found: statusOrMessage,
    remedy: `${LOG}. A pod calls again after RUN_ERROR; the turn fails after its last attempt`,
  },
  {
    code: 'agent_error',
    found: statusOrMessage,
    remedy: `${LOG}. If its model failed, onError of fleetline/agent tells pods whether to call again`,
  },
  {
    code: 'agent_protocol',
    fits: ({ head }) => head === undefined,
    remedy: 'Correct the scheme or the port of the URL',
  },
  {
    code: 'agent_protocol',
    fits: (seen) => isAgUi(seen) && !AG_UI_TYPES.includes(seen.head?.type ?? ''),
    found: typeFound,
    remedy: `Answer with the content type ${AG_UI_TYPES.join(', ')}. If it speaks the AI SDK's protocol, leave out --protocol`,
  },
  {
    code: 'agent_protocol',
    fits: ({ head }) => !TYPES.includes(head?.type ?? ''),
    found: typeFound,
    remedy: `Answer with one of these content types: ${TYPES.join(', ')}`,
  },
  {
    code: 'agent_protocol',
    fits: ({ head }) => !PLAIN.includes(head?.encoding ?? ''),
    found: ({ head }) =>
      `The agent compressed its answer, with the content encoding ${head?.encoding.slice(0, 60)}`,
    remedy: 'Disable compression for this route, in the agent and in proxies in front of it',
  },
  {
    code: 'agent_protocol',
    fits: ({ head }) => head?.type === 'application/json',
    found: (seen) => withReceived(seen.message, seen),
    remedy: (seen) => `${isOpenAi(seen) ? "This is an answer of OpenAI's API. " : ''}${WHOLE}`,
  },
  {
    code: 'agent_protocol',
    fits: (seen) => isAgUi(seen) && /^[a-z-]+ came before/.test(seen.message),
    remedy: "The agent seems to speak the AI SDK's protocol: leave out --protocol",
  },
  {
    code: 'agent_protocol',
    fits: (seen) => isAgUi(seen) && seen.remedy !== undefined,
    found: ({ message, remedy }) => message.slice(0, -`. ${remedy}`.length),
    remedy: ({ remedy }) => remedy!,
  },
  {
    code: 'agent_protocol',
    fits: isAgUi,
    found: (seen) => withReceived(seen.message, seen),
    remedy: EVENTS,
  },
  {
    code: 'agent_protocol',
    fits: says(/Chunks of the type [A-Z_]+ /),
    found: ({ message }) => message,
    remedy: 'The agent seems to speak AG-UI: add --protocol ag-ui (in code: protocol)',
  },
  {
    code: 'agent_protocol',
    fits: isOpenAi,
    found: chunkFound,
    remedy: `These are chunks of OpenAI's API, and the agent must send the AI SDK's UI message stream. ${CHUNKS}`,
  },
  {
    code: 'agent_protocol',
    found: chunkFound,
    remedy: CHUNKS,
  },
  {
    code: 'incomplete',
    fits: says(/broke off/),
    remedy: `${LOG}: its process may have ended, or a proxy cut the connection`,
  },
  { code: 'incomplete', fits: isAgUi, remedy: 'End every run with RUN_FINISHED or RUN_ERROR' },
  {
    code: 'incomplete',
    remedy:
      'End every reply with a finish chunk, also if it stops early. If the agent speaks AG-UI, add --protocol ag-ui (in code: protocol)',
  },
  {
    code: 'timeout',
    found: ({ head, chunks, message }) =>
      `${message}, ${head === undefined ? 'before any answer' : `after ${counted(chunks)}`}`,
    remedy: ({ chunks, protocol }) =>
      chunks === 0
        ? SOONER
        : `If the reply was complete, send ${protocol === 'ag-ui' ? '`RUN_FINISHED`' : '`finish`'} and close the response. Otherwise: ${SOONER}`,
  },
  {
    code: 'too_large',
    remedy: `Send less: a chunk may have 1 MiB, and a reply ${MESSAGE_LIMITS.replyBytes} bytes`,
  },
]

const EMPTY: Problem = {
  found: 'The reply is empty: the agent ended it without any content',
  remedy: 'Send text, or another part, before finish',
}

/** Undefined: a pod would store the reply, and it says something. */
export function problemOf(heard: Failed): Problem | undefined {
  const { fault, head, protocol, chunks = 0, received = '', isKnown } = heard
  if (fault === undefined) return heard.reply ? undefined : EMPTY
  const answered = { head, chunks, protocol, received, isKnown }
  const advice = 'remedy' in fault ? fault.remedy : undefined
  const seen: Seen = { code: fault.code, message: detailed(fault), remedy: advice, ...answered }
  const { found = ({ message }) => message, remedy } = causeOf(seen)
  return { code: fault.code, found: found(seen), remedy: typeof remedy === 'string' ? remedy : remedy(seen) }
}

function causeOf(seen: Seen): Pick<Cause, 'found' | 'remedy'> {
  return CAUSES.find(({ code, fits }) => code === seen.code && (fits?.(seen) ?? true)) ?? { remedy: LOG }
}

/** What onError of the agent's kit says about the cause. */
function detailed(fault: NonNullable<Heard['fault']>): string {
  const detail = 'detail' in fault ? fault.detail : undefined
  return detail ? `${fault.message} (${detail})` : fault.message
}
