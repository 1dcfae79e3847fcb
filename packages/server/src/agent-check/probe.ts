// Calls an agent behind a URL as a pod does: with the pod's webhook, its limits and its assembler. It notes what came back and
// when, and whether a pod would store it. It can also cut a call in the middle, and send requests that no pod would send.
import { createAssembler, type Chunk, type Message } from '@fleetline/protocol'
import type { Dispatcher } from 'undici'
import { AG_UI_TYPES, TYPES } from '../agent/answer.ts'
import type { AgentDefinition } from '../agent/agent.ts'
import { AgentFault } from '../agent/fault.ts'
import { createGuard } from '../agent/guard.ts'
import { settingsOf, type Protocol } from '../agent/settings.ts'
import { createWebhooks, type SendRequest } from '../agent/webhook.ts'
import { Retry } from '../errors.ts'
import { within, type Clock } from '../lib/clock.ts'
import type { Hosts } from '../lib/hosts.ts'
import { ownVersion } from '../lib/version.ts'
import { askSummary, checkSummary } from '../turn/ask-summary.ts'
import { callAgent, type CallLimits } from '../turn/call.ts'
import { AGENT_NAME, type SummaryCall, type TurnCall } from './calls.ts'
import { createWatch, type AnswerHead, type CallWatch } from './watch.ts'

/** What came of a call. */
export type Heard = {
  /** Undefined: no answer came, or none in HTTP. */
  readonly head: AnswerHead | undefined
  /** Why a pod would not store the reply. */
  readonly fault: AgentFault | Retry | undefined
  /** The reply, if it ended as it should and says something. */
  readonly reply: Message | undefined
  /** What the agent had said when the call ended. */
  readonly said: Message
  /** How many chunks were valid. */
  readonly chunks: number
  /** The beginning of what came after them, if it is known. It comes from the agent: `excerptOf` makes it printable. */
  readonly received: string | undefined
  /** An earlier call had an answer, so the URL is right. */
  readonly isKnown: boolean
  /** When pieces of text, of reasoning or of a tool's input came, after the call began. */
  readonly wordsMs: readonly number[]
  readonly endMs: number
  /** The call was cut, as it was to be, before the reply had ended. */
  readonly isCut: boolean
  readonly protocol: Protocol
}

/** How the answer is read. By default it is read as it comes. */
export type Manner = {
  /** Reads nothing for this time after the first words. */
  readonly pauseMs?: number
  /** Closes the connection at the first words, or after a time. */
  readonly cut?: 'at-words' | number
}

/** How a request differs from one that a pod would send. */
export type Forgery = {
  readonly secret?: string
  /** How long ago it was signed. */
  readonly ageMs?: number
  /** Changes it after it was signed. */
  readonly change?: (request: Dispatcher.RequestOptions) => Dispatcher.RequestOptions
}

export type Probe = {
  ask(call: TurnCall, manner?: Manner): Promise<Heard>
  askSummary(call: SummaryCall): Promise<Pick<Heard, 'head' | 'fault' | 'protocol' | 'received' | 'isKnown'>>
  /** Resolves to the status of the answer, without reading it, or to why there is none. */
  forge(call: TurnCall, forgery: Forgery): Promise<number | AgentFault | Retry>
  /** The replies so far that a pod would store. */
  readonly replies: readonly Message[]
}

type Deps = {
  readonly url: string
  readonly secret: string
  /** What the agent speaks. */
  readonly protocol: Protocol
  readonly clock: Clock
  readonly limits: CallLimits
  /** Aborts every call. */
  readonly signal: AbortSignal
}

const CUT = new Error('The call was cut')
const LATE = new AgentFault('timeout', 'The agent did not answer in time', { isFinal: false })

export function createProbe(deps: Deps): Probe {
  const { clock, limits, signal, protocol } = deps
  const replies: Message[] = []
  let isKnown = false
  return {
    replies,
    ask: async (call, manner = {}) => {
      const heard = { ...(await askTurn(deps, call, manner)), isKnown }
      isKnown ||= heard.head !== undefined
      if (heard.reply) replies.push(heard.reply)
      return heard
    },
    askSummary: async (call) => {
      const watch = watchFor(deps)
      const sent = { ...call, deadlineMs: limits.wholeMs, signal }
      let fault: Heard['fault']
      try {
        checkSummary(await askSummary(clock, agentBehind(deps, watch.send), sent), call.maxTokens)
      } catch (error) {
        fault = faultIn(error, signal)
      }
      return { head: watch.head(), fault, protocol, received: watch.receivedAfter(0), isKnown }
    },
    forge: (call, forgery) => forge(deps, call, forgery),
  }
}

/** Everything: the person who gives the URL may call it, and no other host is called, because redirects are not followed. */
export const ANY_HOST: Hosts = { hasName: () => true, hasAddress: () => true, hasRanges: true }

/** The agent as a pod makes it. */
function agentBehind(
  { url, secret, protocol, clock }: Pick<Deps, 'url' | 'secret' | 'protocol' | 'clock'>,
  send: SendRequest,
): AgentDefinition {
  const guard = createGuard({ open: ANY_HOST, clock })
  const webhooks = createWebhooks({ clock, guard, version: ownVersion(), send })
  return webhooks.agentAt({ name: AGENT_NAME, url, secret, settings: settingsOf({ protocol }) })
}

function watchFor({ clock, secret, protocol }: Deps): CallWatch {
  return createWatch({ clock, secret, types: protocol === 'ag-ui' ? AG_UI_TYPES : TYPES })
}

async function askTurn(
  deps: Deps,
  call: TurnCall,
  { pauseMs = 0, cut: when }: Manner,
): Promise<Omit<Heard, 'isKnown'>> {
  const { clock, limits, signal, protocol } = deps
  const [watch, assembler] = [watchFor(deps), createAssembler(call.turn.messageId)]
  const [cut, over] = [new AbortController(), new AbortController()]
  const [startMs, wordsMs] = [clock.monotonicMs(), [] as number[]]
  let [chunks, ended] = [0, Promise.resolve()]
  const onChunk = (chunk: Chunk) => {
    chunks += 1
    if (!chunk.type.endsWith('-delta')) return undefined
    if (wordsMs.push(clock.monotonicMs() - startMs) > 1) return undefined
    if (when === 'at-words') cut.abort(CUT)
    return pauseMs > 0 ? clock.sleep(pauseMs, signal) : undefined
  }
  if (typeof when === 'number') clock.sleep(when, over.signal).then(() => cut.abort(CUT), ignore)
  const onCalled = (end: Promise<void>) => void (ended = end)
  const called = { clock, limits, assembler, onChunk, onCalled }
  const sent = { ...call, deadlineMs: limits.wholeMs, signal: AbortSignal.any([signal, cut.signal]) }
  const result = await callAgent(called, watch.noting(agentBehind(deps, watch.send)), sent).then(
    (reply) => ({ reply, fault: undefined, isCut: false }),
    (error: unknown) => {
      const isCut = cut.signal.aborted && !signal.aborted
      return { reply: undefined, fault: isCut ? undefined : faultIn(error, signal), isCut }
    },
  )
  over.abort()
  const endMs = clock.monotonicMs() - startMs
  await within(clock, limits.tailMs, ended, LATE, signal).catch(ignore) // until its connection is closed
  signal.throwIfAborted()
  const received = watch.receivedAfter(chunks)
  const [head, said] = [watch.head(), assembler.message()]
  return { ...result, protocol, head, said, chunks, received, wordsMs, endMs }
}

async function forge(
  { secret: own, clock: ours, limits, signal, url, protocol }: Deps,
  call: TurnCall,
  { secret = own, ageMs = 0, change = (request) => request }: Forgery,
): Promise<number | AgentFault | Retry> {
  const [over, status] = [new AbortController(), Promise.withResolvers<number>()]
  const clock = { ...ours, now: () => ours.now() - ageMs }
  const send: SendRequest = async (client, request) => {
    const answer = await client.request(change(request))
    status.resolve(answer.statusCode)
    return answer
  }
  const sent = { ...call, deadlineMs: limits.wholeMs, signal: AbortSignal.any([signal, over.signal]) }
  const stream = (await agentBehind({ url, secret, protocol, clock }, send).answer(sent))[
    Symbol.asyncIterator
  ]()
  stream.next().catch(status.reject)
  try {
    return await within(ours, limits.firstMs, status.promise, LATE, signal)
  } catch (error) {
    return faultIn(error, signal)
  } finally {
    over.abort()
    await stream.return?.().catch(ignore)
  }
}

/** Throws what is no fault of the agent. */
function faultIn(error: unknown, signal: AbortSignal): AgentFault | Retry {
  signal.throwIfAborted()
  if (error instanceof AgentFault || error instanceof Retry) return error
  throw error
}

function ignore(): void {}
