// Agents for `agents check`: one that does everything as it should, and broken ones, each with one fault. A broken agent names the
// check that must find the fault, and the words that name it.
import type { ServerResponse } from 'node:http'
import type { TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { Part } from '@fleetline/protocol'
import { SignatureError, verify, type AgentRequest } from '../../src/agent-kit.ts'
import { createAgentCheck } from '../../src/agent-check/check-agent.ts'
import { newSecret } from '../../src/agent/signature.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { agentServer, lines, type Received } from './agent-server.ts'

export const SECRET = newSecret(systemRandom())
export const TOOL_MESSAGE = 'use a tool'

/** One request to an agent. */
type Visit = {
  readonly received: Received
  readonly response: ServerResponse
  readonly call: AgentRequest
  /** The text of the last message. */
  readonly asked: string
  readonly attempt: number
  /** The number of this call among those that ask for a long answer. They come from these checks: `LONG`. */
  readonly nthLong: number
  /** Lets this time pass on the clock of the checks. */
  readonly pass: (ms: number) => void
  /** Ends the agent's process, as far as callers can see. */
  readonly die: () => void
  /** Answers as a good agent does. */
  readonly answer: () => unknown
}
const LONG = { stream: 1, slowReader: 2, cut: 3, again: 4, stop: 5 }

type Agent = (visit: Visit) => unknown
type Broken = {
  readonly check: string
  /** Default: failed. */
  readonly state?: 'failed' | 'warning'
  /** The words that name the fault. */
  readonly says: RegExp
  readonly serve: Agent
  /** Answers requests for a summary. Default: as a good agent. */
  readonly serveSummary?: Agent
  /** What a request without a valid signature gets. Default: 401. */
  readonly serveUnsigned?: Agent
  /** Checked with this option. */
  readonly timeoutMs?: number
}

const JSON_TYPE = { 'content-type': 'application/json' }
const LINES_TYPE = { 'content-type': 'application/x-ndjson' }
const json = (chunk: object) => `${JSON.stringify(chunk)}\n`

function chunksOf(text: string): object[] {
  const words = text.match(/\S+\s*/g) ?? []
  return [
    { type: 'start' },
    { type: 'text-start', id: '1' },
    ...words.map((delta) => ({ type: 'text-delta', id: '1', delta })),
    { type: 'text-end', id: '1' },
    { type: 'finish' },
  ]
}
const SPOKEN = chunksOf('You said something to me')
const [BEGIN, END] = [SPOKEN.slice(0, 3), SPOKEN.slice(3)]
const OPENAI_CHUNK = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_750_000_000,
  model: 'a-model-with-a-long-name',
  system_fingerprint: 'fp_1234567890',
  choices: [{ index: 0, delta: { content: 'Hello' } }],
}
const TOOL_CALL = { toolCallId: 'c1', toolName: 'ask_user' }
const TOOL_RESULT = { type: 'tool-output-available', toolCallId: 'c1', output: 'yes' }
const WITH_TOOL = [
  { type: 'start' },
  { type: 'tool-input-available', ...TOOL_CALL, input: {} },
  TOOL_RESULT,
  ...SPOKEN.slice(1),
]

const saying = (chunks: readonly object[]) => (visit: Visit) => lines(visit.response, chunks)
const status =
  (code: number, headers: Record<string, string> = {}, words = '') =>
  ({ response }: Visit) =>
    response.writeHead(code, headers).end(words)
const closing = ({ response }: Visit) => response.destroy()
const body = (headers: Record<string, string>, text: string | Buffer) => (visit: Visit) =>
  visit.response.writeHead(200, headers).end(text)
const has = ({ call }: Visit, fits: (part: Part) => boolean) =>
  call.messages.some(({ parts }) => parts.some(fits))
/** Sends the first words, and calls back when the caller has closed the connection. */
const holding = ({ response }: Visit, onCut: () => void) => {
  response.writeHead(200, LINES_TYPE).write(BEGIN.map(json).join(''))
  response.once('close', onCut)
}
const unless =
  (isFaulty: (visit: Visit) => boolean, fault: Agent): Agent =>
  (visit) =>
    isFaulty(visit) ? fault(visit) : visit.answer()
const answering: Agent = ({ answer }) => answer()

export const GOOD: Agent = ({ response, asked }) =>
  lines(response, asked === TOOL_MESSAGE ? WITH_TOOL : chunksOf(`You said: ${asked}`))
const summarising = body(JSON_TYPE, '{"summary":"A trip."}')
export const GOOD_IN_JSON: Agent = ({ response, asked }) =>
  response.writeHead(200, JSON_TYPE).end(JSON.stringify({ text: `You said: ${asked}` }))

/** Rejects the call that follows a stopped one. */
function busyOnce(): Agent {
  let isBusy = false
  return (visit) => {
    if (visit.nthLong === LONG.stop) return holding(visit, () => (isBusy = true))
    if (!isBusy) return visit.answer()
    isBusy = false
    return status(503)(visit)
  }
}

export const BROKEN: Readonly<Record<string, Broken>> = {
  'without a route': {
    check: 'hello',
    says: /status 404\. Correct the path of the URL/,
    serve: status(404),
  },
  'not for POST': { check: 'hello', says: /status 405\. Let the route accept POST/, serve: status(405) },
  'with another secret': {
    check: 'hello',
    says: /rejected a signed request, with status 401\. Give the agent the secret/,
    serve: status(401),
  },
  redirecting: {
    check: 'hello',
    says: /redirects to https:\/\/example\.com\/login, with status 307\. .*do not follow redirects/,
    serve: status(307, { location: 'https://example.com/login' }),
  },
  failing: { check: 'hello', says: /status 500\. Look into the log of the agent/, serve: status(500) },
  'failing with words': {
    check: 'hello',
    says: /status 500: KeyError: 'text' \[31m in agent\.py x{60,90}…\. Look into the log/,
    serve: ({ response }) =>
      response
        .writeHead(500)
        .end(`KeyError: 'text'\n\u001b[31m in agent.py\u0000\u202e ${'x'.repeat(9_000)}`),
  },
  'showing its secret': {
    check: 'hello',
    says: /status 500: secret=(whsec_)?… and key=…\. Look/,
    serve: status(500, {}, `secret=${SECRET} and key=${SECRET.slice('whsec_'.length)}`),
  },
  'failing with a body that never ends': {
    check: 'hello',
    says: /status 500: it begins\. Look/,
    serve: ({ response }) => response.writeHead(500).write('it begins'),
  },
  'behind a proxy that does not reach it': {
    check: 'hello',
    says: /status 502\. .*proxy in front of it/,
    serve: status(502),
  },
  'out of calls': {
    check: 'hello',
    says: /status 429\. Check again later/,
    serve: status(429),
  },
  'answering with HTML': {
    check: 'hello',
    says: /content type text\/html: <p>Hello<\/p>\. .*application\/x-ndjson/,
    serve: body({ 'content-type': 'text/html; charset=utf-8' }, '<p>Hello</p>'),
  },
  'compressing its answers': {
    check: 'hello',
    says: /content encoding gzip\. Disable compression/,
    serve: body({ ...LINES_TYPE, 'content-encoding': 'gzip' }, gzipSync(SPOKEN.map(json).join(''))),
  },
  'sending broken JSON': {
    check: 'hello',
    says: /After 1 valid chunk: A chunk is not JSON\. Received: \{"type":"text-start"\. Send the chunks/,
    serve: body(LINES_TYPE, `${json({ type: 'start' })}{"type":"text-start"\n`),
  },
  'sending no UTF-8': {
    check: 'hello',
    says: /not UTF-8/,
    serve: body(LINES_TYPE, Buffer.of(0x7b, 0xff, 0xfe, 0x0a)),
  },
  'answering with JSON that is no message': {
    check: 'hello',
    says: /neither \{"text": …\} nor a message.* Received: \{"answer":"Hello"\}\. Answer with \{"text": "…"\}/,
    serve: body(JSON_TYPE, '{"answer":"Hello"}'),
  },
  'inventing chunks': {
    check: 'hello',
    says: /Chunks of the type word are not known\. Received: \{"type":"word","text":"Hello"\}\./,
    serve: saying([{ type: 'start' }, { type: 'word', text: 'Hello' }]),
  },
  'speaking the API of OpenAI': {
    check: 'hello',
    says: /The first chunk has no "type": \{"id":"chatcmpl-1","object".{60,110}…\. These are chunks of OpenAI's API, and the agent must send .* text-delta/,
    serve: ({ response }) =>
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(`data: ${JSON.stringify(OPENAI_CHUNK)}\n\ndata: [DONE]\n\n`),
  },
  'answering with JSON of OpenAI': {
    check: 'hello',
    says: /Received: \{"choices":.* This is an answer of OpenAI's API\. Answer with \{"text"/,
    serve: body(JSON_TYPE, '{"choices":[{"message":{"role":"assistant","content":"Hello"}}]}'),
  },
  'sending text that is no event': {
    check: 'hello',
    says: /After 0 valid chunks: A line is neither a chunk nor an event\. Received: Hello there\. Send the chunks/,
    serve: body({ 'content-type': 'text/event-stream' }, 'Hello\nthere\n'),
  },
  'sending text before it begins': {
    check: 'hello',
    says: /After 1 valid chunk: text-delta: no text is open/,
    serve: saying([{ type: 'start' }, { type: 'text-delta', id: '1', delta: 'Hello' }]),
  },
  'never finishing': {
    check: 'hello',
    says: /ended before its finish\. End every reply with a finish chunk/,
    serve: saying(SPOKEN.slice(0, -1)),
  },
  'dying in the middle': {
    check: 'hello',
    says: /broke off .*its process may have ended/,
    serve: ({ response }) => {
      response.writeHead(200, LINES_TYPE).write(BEGIN.map(json).join(''), () => response.destroy())
    },
  },
  'reporting an error': {
    check: 'hello',
    says: /The agent said: no key for the model\. Look into the log/,
    serve: saying([{ type: 'start' }, { type: 'error', errorText: 'no key for the model' }]),
  },
  'saying nothing': {
    check: 'hello',
    says: /reply is empty.* Send text/,
    serve: saying([{ type: 'start' }, { type: 'finish' }]),
  },
  'never answering': {
    check: 'hello',
    says: /silent for too long, before any answer\. Answer sooner/,
    serve: () => undefined,
    timeoutMs: 200,
  },
  'falling silent in the middle': {
    check: 'hello',
    says: /silent for too long, after 3 valid chunks\. If the reply was complete, send `finish` and close the response\. Otherwise: Answer sooner/,
    serve: (visit) => holding(visit, () => undefined),
    timeoutMs: 1_000,
  },
  unreachable: {
    check: 'hello',
    says: /cannot be reached \(\w+\)\. Look into the log/,
    serve: closing,
  },
  'failing for long answers': {
    check: 'stream',
    says: /^When asked for a long answer: .*status 500/,
    serve: unless(({ nthLong }) => nthLong > 0, status(500)),
  },
  'holding back its words until the end': {
    check: 'stream',
    state: 'warning',
    says: /all 5 pieces .* came at once, after 9000 ms\. .*buffering of a proxy/i,
    serve: (visit) => {
      visit.pass(9_000)
      return lines(visit.response, SPOKEN)
    },
  },
  'sending one chunk at the end': {
    check: 'stream',
    state: 'warning',
    says: /in one chunk after 9000 ms\. Send a text-delta for each piece/,
    serve: (visit) => {
      visit.pass(9_000)
      return lines(visit.response, [...SPOKEN.slice(0, 3), ...SPOKEN.slice(-2)])
    },
  },
  'cut off by slow readers': {
    check: 'slow-reader',
    says: /^When the reader paused for 20 ms: .*broke off .*Raise the time limits for writing/,
    serve: (visit) => {
      if (visit.nthLong !== LONG.slowReader) return visit.answer()
      visit.response.writeHead(200, LINES_TYPE)
      return visit.response.write(BEGIN.map(json).join(''), () => visit.response.destroy())
    },
  },
  'without calls of tools in its history': {
    check: 'history',
    says: /^When the conversation had a finished call of a tool, and one with a call of a tool that was stopped: .*status 500\. Do not require .*\. Pass the error of a call/,
    serve: unless((visit) => has(visit, ({ type }) => type.startsWith('tool-')), status(500)),
  },
  'without dynamic tools in its history': {
    check: 'history',
    says: /had a finished call of a dynamic tool: .*status 500\. .*do not require/i,
    serve: unless((visit) => has(visit, ({ type }) => type === 'dynamic-tool'), status(500)),
  },
  'without files in its history': {
    check: 'history',
    says: /had a file: The agent said: text only\. Leave out files/,
    serve: unless(
      (visit) => has(visit, ({ type }) => type === 'file'),
      saying([{ type: 'error', errorText: 'text only' }]),
    ),
  },
  'closing the connection at files and calls of tools': {
    check: 'history',
    says: /had a part without text \(step-start\), and one with a finished call of a tool, .* a file: The agent closed the connection before it answered \(\w+\)\. Skip the parts .*\. Do not require .*\. Leave out files/,
    serve: unless((visit) => has(visit, ({ text }) => text === undefined), closing),
  },
  'ending at files': {
    check: 'history',
    says: /had all that logs contain: .* \(\w+\)\. .*log of the agent/,
    serve: unless(
      (visit) => has(visit, ({ type }) => type === 'file'),
      ({ die }) => die(),
    ),
  },
  'rejecting users that speak twice': {
    check: 'history',
    says: /had two messages of the user in a row: .*status 400/,
    serve: unless(({ call: { messages } }) => messages.some(({ id }) => id === 'q-second'), status(400)),
  },
  'rejecting the second attempt': {
    check: 'repeat',
    says: /same turn was called again: .*status 409\. A turn is called again under the same turn\.id after a crash\. Answer it whole again; do not reject it as a duplicate\./,
    serve: unless(({ attempt }) => attempt > 1, status(409)),
  },
  'failing at the second attempt': {
    check: 'repeat',
    says: /status 500: duplicate turn\. A turn is called again/,
    serve: unless(({ attempt, nthLong }) => attempt > 1 && nthLong === 0, status(500, {}, 'duplicate turn')),
  },
  'closing the connection at the second attempt': {
    check: 'repeat',
    says: /called again: The agent closed the connection before it answered .*\. A turn is called again/,
    serve: unless(({ attempt, nthLong }) => attempt > 1 && nthLong === 0, closing),
  },
  'empty at the second attempt': {
    check: 'repeat',
    says: /same turn was called again: The reply is empty.* Answer it whole again/,
    serve: unless(({ attempt }) => attempt > 1, status(204)),
  },
  'dying when its reader leaves': {
    check: 'cut',
    says: /(cannot be reached|closed the connection) .*Handle the errors of writing/,
    serve: unless(
      ({ nthLong }) => nthLong === LONG.cut,
      (visit) => holding(visit, visit.die),
    ),
  },
  'continuing where it was cut': {
    check: 'cut',
    says: /second attempt began where the first one had stopped/,
    serve: (visit) => {
      if (visit.nthLong === LONG.cut) return holding(visit, () => undefined)
      if (visit.nthLong === LONG.again) return lines(visit.response, [...SPOKEN.slice(0, 2), ...END])
      return lines(visit.response, SPOKEN)
    },
  },
  'busy with what was stopped': {
    check: 'stop',
    says: /another turn was called after a stop: .*status 503\. End the work of a request/,
    serve: busyOnce(),
  },
  'slow after a stop': {
    check: 'stop',
    state: 'warning',
    says: /next turn had its first words after 60000 ms, against 0 ms .*End the work of a request/,
    serve: (visit) => {
      if (visit.nthLong === LONG.stop) return holding(visit, () => visit.pass(60_000))
      return visit.answer()
    },
  },
  'answering everybody': {
    check: 'signature',
    says: /an unsigned request \(status 200\), .*another secret.*body was changed.*ten minutes ago.* verify of fleetline\/agent/,
    serve: answering,
    serveUnsigned: answering,
  },
  'taking old requests': {
    check: 'signature',
    says: /answered a request that was signed ten minutes ago \(status 200\)\./,
    serve: answering,
    serveUnsigned: ({ received, response, answer }) =>
      Number(received.headers['webhook-timestamp']) * 1000 < Date.now() - 500_000
        ? answer()
        : response.writeHead(401).end(),
  },
  'failing at unsigned requests': {
    check: 'signature',
    state: 'warning',
    says: /unsigned request \(status 500\).* Answer requests .* with status 401/,
    serve: answering,
    serveUnsigned: status(500),
  },
  'without summaries': {
    check: 'summary',
    says: /request for a summary.* Answer a request with the trigger compact/,
    serve: answering,
    serveSummary: saying(SPOKEN),
  },
  'leaving a call of a tool open': {
    check: 'tools',
    says: /ask_user \(input-available\)\. End every call within the reply.* not supported yet/,
    serve: unless(
      ({ asked }) => asked === TOOL_MESSAGE,
      saying(WITH_TOOL.filter((chunk) => chunk !== TOOL_RESULT)),
    ),
  },
}

type Served = Pick<Broken, 'serve' | 'serveSummary' | 'serveUnsigned'>

/** Starts an agent. Gives its URL, and the check with a clock that only the agent moves. */
export async function checkedAgent(t: TestContext, agent: Served) {
  const { serve, serveSummary = summarising, serveUnsigned = status(401) } = agent
  let [passedMs, longs] = [0, 0]
  const clock = { ...systemClock(), monotonicMs: () => passedMs }
  const { url, die } = await agentServer(t, async (received, response) => {
    const call = JSON.parse(received.body.toString()) as AgentRequest
    const asked = call.messages
      .at(-1)!
      .parts.map(({ text }) => String(text))
      .join(' ')
    const isSigned = await isSignedWell(received)
    const isLong = isSigned && asked.includes('long answer')
    if (isLong) longs += 1
    const visit: Visit = {
      received,
      response,
      call,
      asked,
      attempt: call.turn.attempt,
      nthLong: isLong ? longs : 0,
      pass: (ms) => (passedMs += ms),
      die,
      answer: () => GOOD(visit),
    }
    if (!isSigned) return serveUnsigned(visit)
    return call.trigger === 'compact' ? serveSummary(visit) : serve(visit)
  })
  return { url, check: createAgentCheck({ clock, random: systemRandom(), pauseMs: 20 }) }
}

async function isSignedWell({ headers, body }: Received): Promise<boolean> {
  const request = new Request('http://agent/', {
    method: 'POST',
    headers: headers as Record<string, string>,
    body: new Uint8Array(body),
  })
  return verify(request, SECRET).then(
    () => true,
    (error: unknown) => {
      if (error instanceof SignatureError) return false
      throw error
    },
  )
}
