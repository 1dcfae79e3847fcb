// Calls an agent behind a URL: a signed POST with what an agent in code is called with. Each call has its own connection, which
// closes with the call, and at once when its signal is aborted. It goes to an address that guard.ts allows; redirects are not
// followed. Every attempt of a turn has the same id and idempotency key, and a new timestamp.
//   the answer                                             the call
//   200, 204                                               returns its chunks: answer.ts
//   429                                                    is made again later; does not count
//   408, 425, 5xx                                          fails and is retried, not before its Retry-After
//   any other status, a blocked address                    fails for good
//   no connection in time, or it breaks off                fails and is retried
// turn/call.ts limits how long the agent may be silent and how long the call may take. An error shows only its code, because
// the messages of sockets contain addresses.
import { ChunkError } from '@fleetline/protocol'
import { Client, errors, type Dispatcher } from 'undici'
import { kindOf } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { AgentAnswer, AgentCall, AgentDefinition, CompactCall } from './agent.ts'
import { agUiChunks, agUiInputOf } from './ag-ui-call.ts'
import { AG_UI_TYPES, chunksOf, readSummary, textsOf, TYPES, type HttpAnswer } from './answer.ts'
import type { Located } from './directory.ts'
import { AgentFault, busy } from './fault.ts'
import type { AddressGuard } from './guard.ts'
import { connectorTo } from './pin.ts'
import { retryAfterMs } from './retry-after.ts'
import type { Protocol } from './settings.ts'
import { sign } from './signature.ts'

/** Sends a signed request and resolves with the answer, whatever its status. */
export type SendRequest = (
  client: Pick<Client, 'request'>,
  request: Dispatcher.RequestOptions,
) => Promise<HttpAnswer>

type Deps = {
  readonly clock: Pick<Clock, 'now'>
  readonly version: string
  readonly guard: AddressGuard
  /** Sends in another way. The checks of an agent watch its answers here, and send requests that it must reject. */
  readonly send?: SendRequest
}

type Reached = Pick<Located, 'name' | 'url' | 'secret' | 'settings'>
type Webhooks = { agentAt(located: Reached): AgentDefinition }

const CONNECT_MS = 5_000
const HEADER_BYTES = 16_384
const CHECK_SECRET =
  'compare its secret with the one that `fleetline agents add` printed (a dev fleet: .fleetline/agent-secret), and its clock with ours'

export function createWebhooks(deps: Deps): Webhooks {
  return {
    agentAt: (located) => {
      const { name, settings } = located
      const { url } = settings.compaction
      const summariser = url === null ? located : { ...located, url }
      return {
        name,
        settings,
        answer: (call) => answerOf(deps, { ...located, ...DIALECTS[settings.protocol] }, call),
        compact: (call) => summaryBy(deps, { ...summariser, ...AI_SDK }, call),
      }
    },
  }
}

type Target = Omit<Reached, 'settings'> & Pick<Dialect, 'types' | 'bodyOf'>

/** How an agent is asked and answers. */
type Dialect = {
  /** The content types that it may answer with. */
  readonly types: readonly string[]
  readonly bodyOf: (call: Sent<AgentCall> | Sent<CompactCall>) => object
  readonly chunksOf: (answer: HttpAnswer, call: AgentCall) => AgentAnswer
}
type Sent<Call> = Omit<Call, 'signal' | 'deadlineMs'>

const AI_SDK: Dialect = { types: TYPES, bodyOf: (call) => call, chunksOf }
const DIALECTS: Readonly<Record<Protocol, Dialect>> = {
  'ai-sdk': AI_SDK,
  'ag-ui': {
    types: AG_UI_TYPES,
    bodyOf: (call) => agUiInputOf(call as AgentCall),
    chunksOf: (answer, call) => agUiChunks(textsOf(answer, AG_UI_TYPES), call),
  },
}

async function* answerOf(
  deps: Deps,
  target: Target & Pick<Dialect, 'chunksOf'>,
  call: AgentCall,
): AgentAnswer {
  const asked = await ask(deps, target, call)
  try {
    yield* target.chunksOf(asked.answer, call)
  } catch (error) {
    throw call.signal.aborted ? error : faultOf(error, true)
  } finally {
    await asked.client.destroy()
  }
}

/** The same request, with another `trigger`, to an agent that summarises. */
async function summaryBy(deps: Deps, target: Target, call: CompactCall): Promise<string> {
  const asked = await ask(deps, target, call)
  try {
    return await readSummary(asked.answer)
  } catch (error) {
    throw call.signal.aborted ? error : faultOf(error, true)
  } finally {
    await asked.client.destroy()
  }
}

type Asked = { readonly client: Client; readonly answer: HttpAnswer }

/** Resolves when the agent has answered with status 200 or 204. The caller destroys the client. */
async function ask(
  deps: Deps,
  { name, url, secret, types, bodyOf }: Target,
  call: AgentCall | CompactCall,
): Promise<Asked> {
  const { send = sendNow } = deps
  if (secret === undefined) throw unopened(name)
  const target = new URL(url)
  let client: Client | undefined
  try {
    client = await clientFor(target, { ...deps, ...call })
    const { signal: _signal, deadlineMs: _deadlineMs, ...sent } = call
    const body = Buffer.from(JSON.stringify(bodyOf(sent)))
    const headers = { ...(await headersOf(deps, secret, call, body)), accept: types.join(', ') }
    const path = `${target.pathname}${target.search}`
    const answer = await send(client, { method: 'POST', path, headers, body, signal: call.signal })
    check(answer, deps.clock)
    return { client, answer }
  } catch (error) {
    await client?.destroy()
    throw call.signal.aborted ? error : faultOf(error, false)
  }
}

const sendNow: SendRequest = (client, request) => client.request(request)

async function clientFor(
  target: URL,
  { guard, signal }: Pick<Deps, 'guard'> & Pick<AgentCall, 'signal'>,
): Promise<Client> {
  const addresses = await guard.addressesOf(target, signal)
  return new Client(target.origin, {
    connect: connectorTo(addresses, { timeout: CONNECT_MS, signal }),
    allowH2: false, // in HTTP/2 the limit on headers does not apply, and refused streams are repeated
    maxHeaderSize: HEADER_BYTES,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
}

async function headersOf(
  { clock, version }: Deps,
  secret: string,
  { turn, deadlineMs }: Pick<CompactCall, 'turn' | 'deadlineMs'>,
  body: Buffer,
) {
  const timestamp = String(Math.floor(clock.now() / 1000))
  return {
    'content-type': 'application/json',
    'accept-encoding': 'identity',
    'user-agent': `fleetline/${version}`,
    'webhook-id': turn.id,
    'idempotency-key': turn.id,
    'webhook-timestamp': timestamp,
    'webhook-signature': await sign(secret, { id: turn.id, timestamp, body }),
    'x-fleetline-attempt': String(turn.attempt),
    'x-fleetline-epoch': String(turn.epoch),
    'x-fleetline-deadline-ms': String(deadlineMs),
  }
}

/** Throws unless the status is 200 or 204. */
function check(
  { statusCode, headers }: Pick<HttpAnswer, 'statusCode' | 'headers'>,
  clock: Pick<Clock, 'now'>,
): void {
  const said = `The agent answered with status ${statusCode}`
  const afterMs = retryAfterMs(headers, clock.now())
  if (statusCode === 429) throw busy(said, afterMs)
  if (statusCode === 408 || statusCode === 425 || statusCode >= 500)
    throw new AgentFault('agent_error', said, { isFinal: false, afterMs, status: statusCode })
  if (statusCode === 200 || statusCode === 204) return
  const advice = statusCode === 401 ? `: ${CHECK_SECRET}` : ''
  throw new AgentFault('agent_refused', `${said}${advice}`, { isFinal: true })
}

/** Converts what undici, the socket or TLS threw. Our own errors stay as they are. */
function faultOf(error: unknown, isAnswered: boolean): unknown {
  const { code } = error as { readonly code?: unknown }
  if (error instanceof AgentFault || error instanceof ChunkError || kindOf(error)) return error
  if (error instanceof errors.HeadersOverflowError)
    return new AgentFault('too_large', `The headers of an answer have at most ${HEADER_BYTES} bytes`, {
      isFinal: true,
    })
  const isUnparsed = error instanceof errors.HTTPParserError
  // After the headers, an answer that breaks off may be a parser error, too.
  if (isUnparsed && !isAnswered)
    return new AgentFault('agent_protocol', 'The agent does not answer in HTTP', { isFinal: true })
  if (typeof code !== 'string' && !isUnparsed) return error
  const how = typeof code === 'string' ? code : 'in the middle'
  return isAnswered
    ? new AgentFault('incomplete', `The answer of the agent broke off (${how})`, { isFinal: false })
    : new AgentFault('unreachable', `The agent cannot be reached (${how})`, { isFinal: false, status: 502 })
}

function unopened(name: string): AgentFault {
  const how = `restore the FLEETLINE_SECRETS_KEY from when it was added, or run fleetline agents set ${name} --secret-file FILE`
  return new AgentFault('agent_unopened', `Pods cannot decrypt the secret of the agent ${name}: ${how}`, {
    isFinal: false,
  })
}
