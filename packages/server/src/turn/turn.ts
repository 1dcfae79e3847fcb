// Runs one attempt of a turn: check, gather, call, settle. Guarantees:
//   E1  nothing of an attempt is in the log unless its epoch and its claim were current in the transaction that wrote it
//   E5  however often it was started, a turn ends once, with its reply or with a failure that people see
//   D4  the agent's chunks, put together, are the message that is stored
//
//   what happens in the attempt                                  what becomes of the turn
//   another attempt has the claim, or the turn was stopped.      nothing: fenced
//   Found by the check, by the flush of its chunks, or at
//   its end.
//   PostgreSQL cannot be read for now                            waits; does not count
//   the turn is 15 minutes old, or would be before the           failed: `deadline`
//   next attempt
//   this is the fifth that counts: the fourth never ended        failed: `attempts_used_up`
//   only other pods have its agent in their code                 waits for those pods; does not count
//   its agent is neither in the directory nor in any pod's       waits; does not count; at its deadline failed:
//   code                                                         `agent_unknown`
//   all messages that asked for the reply were erased            done, with no message
//   messages were erased after it had read them, and before      starts over, so that the agent does not get them
//   its agent was called
//   the session was erased                                       failed: `gone`
//   the agent replied                                            done, with its message, or with none if that is empty
//   the agent failed                                             waits, then its agent is called again; at the fourth attempt
//                                                                failed, with what it said so far
//   the agent failed for good (its protocol, abort)              failed, with what it said so far
//   the agent asked to be called later                           waits until then; does not count
//   its downstream has no permit, or rejects the call            waits until it accepts calls again; does not count
//   the pod stops, or cannot be sure that it is alive            handed back; does not count
// The end is sent until PostgreSQL answers. A repeat is safe: if this attempt has ended the turn already, it gets the same
// answer. Task rows keep the code of a fault, never its message, because that may quote the conversation.
import { createAssembler, type Assembler, type Chunk, type Message } from '@fleetline/protocol'
import type { AgentCall, AgentDefinition } from '../agent/agent.ts'
import type { Agents, Callable } from '../agent/agents.ts'
import { AgentFault } from '../agent/fault.ts'
import { shapeOf } from '../agent/in-code.ts'
import { contextTokens, tokensOf, type ContextSize } from '../conversation/budget.ts'
import { kindOf, Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import { retryUntilAnswered } from '../lib/retry-until-answered.ts'
import type { Random } from '../lib/random.ts'
import { draftOf, type MessageDraft } from '../session/draft.ts'
import { draftOfSaid } from '../session/partial.ts'
import { SESSION_ERASED, type TurnEnd, type TurnError } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import { openTurn, passOnTurn, TURN_DEADLINE_MS, TURN_TRACK, type OpenTurn } from '../session/turns.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import { isValueFault } from '../store/sqlstate.ts'
import type { Claim } from '../task/claim.ts'
import { faultOf, readThrown, retryMs } from '../task/fault.ts'
import type { Machine } from '../task/machine.ts'
import type { Call, SettledEnd, Runner, Surroundings } from '../task/runner.ts'
import type { Settlement } from '../task/settle.ts'
import { withPartitions } from '../task/partitions.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { AttemptUsage, UsageOutcome, UsageRecorder } from '../usage/record.ts'
import { CALL_LIMITS, callAgent } from './call.ts'
import { gather, isStale, type Gathered } from './gather.ts'
import type { Halts } from './halts.ts'
import { countUsed, createSpending, type Spending } from './spending.ts'
import { STALE, underPermit } from './under-permit.ts'
import { whyFailed } from './why-failed.ts'

type Deps = {
  readonly database: Transactions
  readonly sessions: Pick<Sessions, 'read' | 'readConversation' | 'endTurn' | 'openStream'>
  readonly agents: Pick<Agents, 'agentFor'>
  readonly halts: Pick<Halts, 'enter'>
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Pick<Metrics, 'count'>
  readonly usage: UsageRecorder
  readonly cell: number
  /** How long an agent may be silent, before its first chunk and after it. */
  readonly agentFirstMs: number
  readonly agentSilenceMs: number
}

/** Attempts that count. */
const MOST_ATTEMPTS = 4
const LATER_MS = 1_000
const UNKNOWN_MS = 5_000 // until the next look for an agent that nobody has
const PATIENCE = 5 // if PostgreSQL rejects the end this often, and not because of its data, the turn fails

const USED_UP: TurnError = {
  code: 'attempts_used_up',
  message: `Its ${MOST_ATTEMPTS} attempts are used up: the last one died with its pod, or could not read the conversation`,
}
const TOO_OLD: TurnError = { code: 'deadline', message: 'The turn was not done within 15 minutes' }
const UNSTORABLE: TurnError = { code: 'agent_protocol', message: 'PostgreSQL cannot store the reply' }
const BROKEN: TurnError = { code: 'internal', message: 'The reply could not be stored' }
const OVERTAKEN = new Error('fenced: the turn was stopped, or another attempt of it is current')
const UNKNOWN_AGENT: TurnError = {
  code: 'agent_unknown',
  message: 'The agent is not in the directory, and no live pod has it in its code: add it, or deploy it',
}

/** Chunks that an agent may send before its model has said anything. */
const BEFORE_WORDS = new Set(['start', 'start-step'])

/** One attempt and its surroundings. */
type Attempt = Surroundings & { readonly claim: Claim }
type Work = Attempt & {
  readonly turn: OpenTurn
  readonly deps: Deps
  readonly onCalled: (ended: Promise<void>) => void
  /** How much of the turn's time is left. */
  readonly leftMs: () => number
}
/** An attempt whose agent is called: what it has said and used so far. */
type CalledWork = Work & { readonly said: Assembler; readonly spending: Spending }

/** One machine for agents in the directory, and one for each agent in this pod's code. Each has one transition, which the
 *  session records when it ends the turn. */
export function createTurnMachines(deps: Deps, inCode: Iterable<string> = []): Machine[] {
  const shapes = [TURN_TRACK.shape, ...Array.from(inCode, shapeOf)]
  return shapes.map((shape) => ({ ...TURN_TRACK, shape, parse: undefined, open: () => runnerOf(deps) }))
}

function runnerOf(deps: Deps): Runner {
  return {
    machine: TURN_TRACK.name,
    run: async (claim, around) => {
      const attempt = { ...around, claim }
      const entered = deps.halts.enter(claim.id)
      let [callEnded, isFenced] = [Promise.resolve(), false]
      const onCalled = (ended: Promise<void>) => void (callEnded = ended)
      try {
        const end = await openAndAnswer(deps, attempt, onCalled)
        isFenced = !end || ('answer' in end && end.answer === 'fenced')
        return end ?? gone(attempt)
      } catch (error) {
        return notBegun(attempt, error)
      } finally {
        void callEnded.then(isFenced ? entered.halt : entered.leave)
      }
    },
  }
}

/** Undefined: the attempt is fenced. It starts over each time that messages were erased meanwhile. */
async function openAndAnswer(
  deps: Deps,
  attempt: Attempt,
  onCalled: Work['onCalled'],
): Promise<Settlement | SettledEnd | undefined> {
  for (;;) {
    const turn = await open(deps, attempt)
    if (!turn) return undefined
    const openedMs = deps.clock.monotonicMs()
    const leftMs = () => Math.floor(TURN_DEADLINE_MS - turn.ageMs - (deps.clock.monotonicMs() - openedMs))
    const end = await answer({ ...attempt, turn, deps, onCalled, leftMs })
    if (end !== 'stale') return end
  }
}

async function open({ database }: Deps, { claim, pod }: Attempt): Promise<OpenTurn | undefined> {
  const held = { id: claim.id, attempt: claim.attempt, pod }
  return withPartitions(database, async () => {
    const outcome = await database.transaction((query) => openTurn(query, claim.tenant, held))
    return valueOf(outcome, 'The turn cannot be opened')
  })
}

/** Rejects if it cannot read the conversation. */
async function answer(work: Work): Promise<Settlement | SettledEnd | 'stale'> {
  const { claim, turn, deps } = work
  if (work.leftMs() <= 0) return endFailed(work, TOO_OLD)
  if (claim.spent > MOST_ATTEMPTS) return endFailed(work, USED_UP)
  const agent = await deps.agents.agentFor(claim.tenant, turn.agent)
  if (!agent) return withoutAgent(work)
  const { window } = agent.settings
  const gathered = await gather({ ...deps.sessions, cell: deps.cell, window }, claim, turn)
  if (gathered === 'stale') return gathered
  if (!gathered) return endFailed(work, SESSION_ERASED)
  const { call, isCut, isAsked } = gathered
  if (!isAsked) return end(work, { outcome: 'done', draft: undefined, size: undefined, used: undefined })
  await crashPoint('turn.gathered')
  if (work.isFenced()) return { type: 'back' }
  const called = { said: createAssembler(call.turn.messageId), spending: createSpending(claim) }
  const ended = await reply({ ...work, ...called }, agent, { call, isCut })
  if (ended === 'stale') return ended
  await account({ ...work, ...called }, ended)
  return ended
}

async function reply(
  work: CalledWork,
  agent: Callable,
  { call, isCut }: CallWithin,
): Promise<Settlement | SettledEnd | 'stale'> {
  const { ending, spending, claim, turn, deps } = work
  const around = { ...work, isStale: () => isStale(deps.sessions, { ...turn, tenant: claim.tenant }) }
  try {
    const message = await underPermit(around, agent.downstream, (permitted) =>
      listen({ ...work, permitted }, agent, {
        ...call,
        deadlineMs: work.leftMs(),
        signal: ending.signal,
      }),
    )
    await crashPoint('turn.ending')
    const draft = message && draftOf({ ...message, author: { kind: 'agent', id: agent.name } })
    const size = sizeAfter(agent, { ...work, call, isCut }, draft)
    return await end(work, { outcome: 'done', draft, size, used: spending.used('done') })
  } catch (error) {
    return error === STALE ? 'stale' : afterFault(work, error)
  }
}

/** Writes what the attempt has used, if it has not ended its turn: the end writes it in its own transaction. */
async function account(work: CalledWork, ended: Settlement | SettledEnd): Promise<void> {
  const { claim, gaveUp: signal, spending, deps, log } = work
  const used = spending.used(outcomeFor(ended))
  if (!used || ('answer' in ended && ended.answer === 'unanswered')) return
  if (ended.type === 'later' && !spending.hasSpoken()) return // it was asked to come later, before the model was called
  countUsed(deps.metrics, used)
  if ('answer' in ended && ended.answer === 'settled') return
  const over = new AbortController()
  const onFailure = (error: unknown, failures: number) => {
    if (failures === 0) log.warn('what an attempt has used could not be written yet', { error })
    if (failures >= PATIENCE && kindOf(error) !== 'Retry') over.abort() // the reply matters more
  }
  const attempt = { ...used, tenant: claim.tenant, turn: claim.id }
  const until = { ...deps, signal: AbortSignal.any([signal, over.signal]), onFailure }
  await retryUntilAnswered(until, () => deps.usage.record(attempt))
}

function outcomeFor(ended: Settlement | SettledEnd): UsageOutcome {
  if ('answer' in ended && ended.answer === 'fenced') return 'fenced'
  if (ended.type === 'done') return 'done'
  return ended.type === 'back' || ended.type === 'later' ? 'returned' : 'failed'
}

type CallWithin = Pick<Gathered, 'call' | 'isCut'>
type Said = Pick<CalledWork, 'turn' | 'spending'> & CallWithin

/** Undefined if the agent does not compact its conversations. */
function sizeAfter(
  { settings: { compaction } }: AgentDefinition,
  { call: { messages }, isCut, turn, spending }: Said,
  reply: MessageDraft | undefined,
): ContextSize | undefined {
  const { enabled, tokenBudget, triggerRatio } = compaction
  if (!enabled) return undefined
  const bytesOf = (list: AgentCall['messages']) =>
    Buffer.byteLength(JSON.stringify(list)) + (reply?.bytes ?? 0)
  const budget = { tokenBudget, triggerRatio }
  const fresh = turn.summary === null ? messages : messages.slice(1)
  const estimates = { all: tokensOf(bytesOf(messages)), fresh: tokensOf(bytesOf(fresh)) }
  return { tokens: contextTokens(budget, estimates, spending.contextTokens()), budget, isCut }
}

/** Rejects if it cannot read whether another pod has the agent. */
async function withoutAgent(work: Work): Promise<Settlement | SettledEnd> {
  const { claim, pod, turn, deps } = work
  const held = { tenant: claim.tenant, id: claim.id, attempt: claim.attempt, pod }
  const outcome = await deps.database.transaction((query) => passOnTurn(query, turn.agent, held))
  if (valueOf(outcome, 'Who has the agent cannot be read')) return { type: 'back', answer: 'settled' }
  if (work.leftMs() <= UNKNOWN_MS) return endFailed(work, UNKNOWN_AGENT)
  return { type: 'later', delayMs: UNKNOWN_MS, error: faultOfTask(work, UNKNOWN_AGENT.code) }
}

/** Calls the agent and streams its reply to readers. */
async function listen(
  {
    claim,
    pod,
    ending,
    deps,
    onCalled,
    permitted,
    said: assembler,
    spending,
  }: CalledWork & {
    readonly permitted: Call
  },
  agent: AgentDefinition,
  call: AgentCall,
): Promise<Message | undefined> {
  const { id: turn, tenant, attempt } = claim
  const onFenced = () => ending.abort(OVERTAKEN)
  const stream = deps.sessions.openStream({ tenant, turn, attempt, pod, onFenced })
  try {
    const { agentFirstMs: firstMs, agentSilenceMs: silenceMs } = deps
    const limits = { ...CALL_LIMITS, firstMs, silenceMs, wholeMs: call.deadlineMs }
    const onIgnored = () => deps.metrics.count('agentChunksIgnored', {})
    spending.begin()
    const onChunk = (chunk: Chunk) => {
      spending.take(chunk)
      if (!BEFORE_WORDS.has(chunk.type)) permitted.firstToken()
      return stream.push(chunk)
    }
    const around = { clock: deps.clock, limits, assembler, onChunk, onCalled, onIgnored }
    const message = await callAgent(around, agent, call)
    deps.metrics.count('agentCalls', { outcome: 'answered' })
    return message
  } catch (error) {
    deps.metrics.count('agentCalls', { outcome: outcomeOf(error, ending.signal, deps.clock) })
    throw error
  } finally {
    stream.close()
  }
}

function outcomeOf(error: unknown, { aborted }: AbortSignal, clock: Clock): string {
  if (aborted) return 'aborted'
  if (error instanceof AgentFault) return error.code
  return readThrown(error, clock).delayMs === undefined ? 'thrown' : 'later'
}

/** The settlement is normally fenced, too. */
function gone(attempt: Attempt): Settlement {
  return { type: 'failed', error: faultOfTask(attempt, 'fenced') }
}

function notBegun(attempt: Attempt, error: unknown): Settlement {
  if (attempt.ending.signal.aborted) return { type: 'back' }
  attempt.log.warn('a turn could not be begun', { error })
  const fault = faultOfTask(attempt, 'unavailable')
  if (error instanceof Retry) return { type: 'later', delayMs: LATER_MS, error: fault }
  return { type: 'retry', delayMs: retryMs(attempt.claim.spent, attempt.random), error: fault }
}

async function afterFault(work: CalledWork, error: unknown): Promise<Settlement | SettledEnd> {
  const { claim, ending, clock, random, turn, spending } = work
  const endWith = (fault: TurnError) =>
    endFailed(work, fault, draftOfSaid(work.said, turn.agent), spending.used('failed'))
  if (ending.signal.reason === OVERTAKEN) return { type: 'failed', answer: 'fenced' }
  if (ending.signal.aborted || (work.draining.aborted && error === work.draining.reason))
    return { type: 'back' }
  const { code, message, kind, delayMs } = readThrown(error, clock)
  const logFailure = () =>
    work.log.warn('an agent failed', { ...whyFailed(work, turn.agent, error), attempt: claim.attempt })
  if (kind === 'Abort') {
    logFailure()
    return endWith({ code: 'aborted', message })
  }
  const isTooLate = (ms: number) => ms >= work.leftMs()
  if (delayMs !== undefined)
    return isTooLate(delayMs)
      ? endWith(TOO_OLD)
      : { type: 'later', delayMs, error: faultOfTask(work, code === 'rate_limited' ? code : 'later') }
  const isFinal = error instanceof AgentFault && error.isFinal
  logFailure()
  if (isFinal || claim.spent >= MOST_ATTEMPTS) return endWith({ code, message })
  const askedMs = error instanceof AgentFault ? (error.afterMs ?? 0) : 0
  const pauseMs = Math.max(askedMs, retryMs(claim.spent, random))
  if (isTooLate(pauseMs)) return endWith(TOO_OLD)
  return { type: 'retry', delayMs: pauseMs, error: faultOfTask(work, code) }
}

function endFailed(
  work: Work,
  error: TurnError,
  draft?: MessageDraft,
  used?: AttemptUsage,
): Promise<SettledEnd> {
  work.log.warn('a turn failed', { code: error.code })
  return end(work, { outcome: 'failed', error, draft, used })
}

type Ending =
  | Pick<Extract<TurnEnd, { outcome: 'done' }>, 'outcome' | 'draft' | 'size' | 'used'>
  | Pick<Extract<TurnEnd, { outcome: 'failed' }>, 'outcome' | 'error' | 'draft' | 'used'>

async function end(
  { claim, pod, log, gaveUp: signal, turn, deps }: Work,
  ending: Ending,
): Promise<SettledEnd> {
  const { session, epoch, eraseCount } = turn
  const key = {
    tenant: claim.tenant,
    session,
    turn: claim.id,
    epoch,
    attempt: claim.attempt,
    pod,
    eraseCount,
  }
  const { used } = ending
  let sent = ending
  const onFailure = (error: unknown, failures: number) => {
    if (failures === 0) log.warn('a turn could not be ended yet', { error })
    if (isValueFault(error))
      sent = { outcome: 'failed', error: errorOf(ending, UNSTORABLE), draft: undefined, used }
    else if (failures >= PATIENCE && kindOf(error) !== 'Retry')
      sent = { outcome: 'failed', error: errorOf(ending, BROKEN), draft: undefined, used }
  }
  const ended = await retryUntilAnswered({ ...deps, signal, onFailure }, () =>
    deps.sessions.endTurn({ ...key, ...sent }),
  )
  const answer = ended === undefined ? 'unanswered' : ended.type === 'ended' ? 'settled' : 'fenced'
  return { type: sent.outcome, answer }
}

/** The error that the turn failed with before, if it did; otherwise this one. */
function errorOf(ending: Ending, error: TurnError): TurnError {
  return ending.outcome === 'failed' ? ending.error : error
}

function faultOfTask({ claim, clock }: Attempt, code: string): string {
  return faultOf({ code, message: 'An attempt of a turn failed', attempt: claim.attempt, clock })
}
