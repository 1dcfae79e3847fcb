// Runs one attempt of a compaction: check, gather, call, settle. The agent is sent the messages since the last summary, with that
// summary first, and returns a new one. Guarantees:
//   E1  nothing of an attempt is stored unless the compaction was under way and its claim current in the transaction
//   E7  the summary covers the messages that the agent was sent, and those of the summary before: exactly 1 to `upto`
//
//   what happens in the attempt                              what becomes of the compaction
//   another attempt has the claim, or it has ended           nothing: fenced
//   there are more messages than one call may have           the summary covers the oldest messages; unless a message waits, the next
//                                                            compaction starts at once
//   the agent returned a summary                             done
//   all messages up to `upto` were erased or replaced        done: the summary says so, and the agent is not asked
//   messages were erased after they were read, and before    the task waits a second and starts over, so that the agent does not get
//   the agent was called                                     them
//   messages were erased since the agent was called          failed: the summary is not stored
//   the agent failed, its pod stops, it has no permit        the task waits and is tried again; an attempt that did not call the
//                                                            agent does not count
//   four attempts failed, three minutes passed, the agent    failed: the conversation goes on without a summary, and the next try
//   is unknown, its answer is malformed, or the summary      comes 20 messages later
//   cannot be stored
import { formatId, parseId } from '@fleetline/protocol'
import type { Agents, Callable } from '../agent/agents.ts'
import type { CompactCall } from '../agent/agent.ts'
import { AgentFault } from '../agent/fault.ts'
import { shapeOf } from '../agent/in-code.ts'
import { MOST_SENT, mostSummaryTokens } from '../conversation/budget.ts'
import { Bug, kindOf } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import { retryUntilAnswered } from '../lib/retry-until-answered.ts'
import type { Random } from '../lib/random.ts'
import {
  COMPACT_TRACK,
  COMPACTION_DEADLINE_MS,
  openCompaction,
  type CompactionInput,
  type OpenCompaction,
} from '../session/compactions.ts'
import type { CompactionEnd, SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import { isValueFault } from '../store/sqlstate.ts'
import type { Claim } from '../task/claim.ts'
import { faultOf, readThrown, retryMs } from '../task/fault.ts'
import type { Machine } from '../task/machine.ts'
import type { Runner, SettledEnd, Surroundings } from '../task/runner.ts'
import type { Settlement } from '../task/settle.ts'
import { askSummary, checkSummary } from './ask-summary.ts'
import { inOrder, isNotErased, isStale, messageOf, summaryMessage } from './gather.ts'
import { STALE, underPermit } from './under-permit.ts'
import { whyFailed } from './why-failed.ts'

type Deps = {
  readonly database: Transactions
  readonly sessions: Pick<Sessions, 'read' | 'readConversation' | 'endCompaction'>
  readonly agents: Pick<Agents, 'agentFor'>
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

const MOST_ATTEMPTS = 4
const LATER_MS = 1_000
const PATIENCE = 5 // if PostgreSQL rejects the end this often, and not because of its data, the compaction fails
const NOTHING = 'All messages were erased or replaced.'

type Attempt = Surroundings & { readonly claim: Claim; readonly deps: Deps; readonly input: CompactionInput }
type Work = Attempt & { readonly open: OpenCompaction; readonly leftMs: () => number }

/** One machine for agents in the directory, and one for each agent in this pod's code. */
export function createCompactMachines(deps: Deps, inCode: Iterable<string> = []): Machine[] {
  const shapes = [COMPACT_TRACK.shape, ...Array.from(inCode, shapeOf)]
  const runner: Runner = {
    machine: COMPACT_TRACK.name,
    run: (claim, around) => run({ ...around, claim, deps, input: claim.input as CompactionInput }),
  }
  return shapes.map((shape) => ({ ...COMPACT_TRACK, shape, parse: undefined, open: () => runner }))
}

async function run(attempt: Attempt): Promise<Settlement | SettledEnd> {
  try {
    const open = await read(attempt)
    if (!open) return { type: 'failed', error: faultOfTask(attempt, 'fenced') } // normally fenced, too
    const openedMs = attempt.clock.monotonicMs()
    const leftMs = () =>
      Math.floor(COMPACTION_DEADLINE_MS - open.ageMs - (attempt.clock.monotonicMs() - openedMs))
    return await compact({ ...attempt, open, leftMs })
  } catch (error) {
    if (attempt.ending.signal.aborted) return { type: 'back' }
    attempt.log.warn('a compaction could not be begun', { error })
    return { type: 'later', delayMs: LATER_MS, error: faultOfTask(attempt, 'unavailable') }
  }
}

async function read({ deps, claim, pod, input }: Attempt): Promise<OpenCompaction | undefined> {
  const session = parseId('session', input.session)?.uuid
  if (!session) throw new Bug('A compaction names no session')
  const held = { tenant: claim.tenant, session, id: claim.id, attempt: claim.attempt, pod }
  const outcome = await deps.database.transaction((query) => openCompaction(query, held))
  return valueOf(outcome, 'The compaction cannot be opened')
}

/** Rejects if it cannot read the conversation. */
async function compact(work: Work): Promise<Settlement | SettledEnd> {
  const { claim, open, deps } = work
  if (work.leftMs() <= 0) return fail(work, 'deadline')
  if (claim.spent > MOST_ATTEMPTS) return fail(work, 'attempts_used_up')
  const agent = await deps.agents.agentFor(claim.tenant, open.agent)
  if (!agent?.compact) return fail(work, 'agent_unknown')
  const call = await gather(work)
  if (!call) return fail(work, 'gone')
  if (work.isFenced()) return { type: 'back' }
  try {
    const text = call.messages.length === 0 ? NOTHING : await summarise(work, agent, call)
    await crashPoint('compact.ending')
    const { through, ...size } = work.input
    const more = call.through < through ? size : undefined
    return await end(work, { outcome: 'done', upto: call.through, text, more, eraseCount: open.eraseCount })
  } catch (error) {
    return afterFault(work, error)
  }
}

/** Undefined: the session was erased. */
async function gather({
  claim,
  open,
  input,
  deps,
}: Work): Promise<Omit<CompactCall, 'deadlineMs' | 'signal'> | undefined> {
  const key = { tenant: claim.tenant, session: open.session }
  const most = { limit: MOST_SENT.messages, maxBytes: MOST_SENT.bytes }
  const page = await deps.sessions.readConversation(key, { after: open.summarised, ...most })
  if (!page) return undefined
  if (page.eraseCount !== open.eraseCount) throw STALE // the summary before may quote what was erased
  const items = page.items.filter(({ seq }) => seq <= input.through)
  const through = await lastCovered(deps, key, items.at(-1)?.seq ?? open.summarised, input.through)
  const id = formatId('session', deps.cell, open.session)
  return {
    id,
    trigger: 'compact',
    messages: [
      ...summaryMessage(open.summary, open.summarised),
      ...inOrder(items.filter(isNotErased)).map(messageOf),
    ],
    through,
    maxTokens: mostSummaryTokens(input.budget),
    turn: { id: formatId('turn', deps.cell, claim.id), epoch: open.epoch, attempt: claim.spent },
    session: { id, title: open.title, metadata: open.metadata },
    agent: { id: open.agent },
  }
}

/** Up to where the summary reaches, if the last message that the agent gets is the one at `last`: replaced messages behind it are covered. */
async function lastCovered(
  { sessions }: Deps,
  key: SessionKey,
  last: number,
  through: number,
): Promise<number> {
  if (last >= through) return last
  const page = await sessions.readConversation(key, { after: last, limit: 1 })
  const next = page?.items[0]?.seq ?? through + 1
  return next > through ? through : last
}

async function summarise(
  work: Work,
  agent: Callable,
  call: Omit<CompactCall, 'deadlineMs' | 'signal'>,
): Promise<string> {
  const { clock, leftMs, open, claim, deps } = work
  const around = { ...work, isStale: () => isStale(deps.sessions, { ...open, tenant: claim.tenant }) }
  const text = await underPermit(around, agent.downstream, ({ signal }) =>
    askSummary(clock, agent, { ...call, deadlineMs: leftMs(), signal }),
  )
  return checkSummary(text, call.maxTokens)
}

function afterFault(work: Work, error: unknown): Promise<SettledEnd> | Settlement {
  const { claim, ending, draining, clock, random, log } = work
  if (ending.signal.aborted || (draining.aborted && error === draining.reason)) return { type: 'back' }
  if (error === STALE) return { type: 'later', delayMs: LATER_MS, error: faultOfTask(work, 'unavailable') }
  const { code, delayMs, kind } = readThrown(error, clock)
  const fields = { ...whyFailed(work, work.open.agent, error), attempt: claim.attempt }
  log.warn('a conversation could not be summarised', fields)
  const isFinal = kind === 'Abort' || (error instanceof AgentFault && error.isFinal)
  if (delayMs !== undefined && delayMs < work.leftMs())
    return { type: 'later', delayMs, error: faultOfTask(work, code) }
  const pauseMs = retryMs(claim.spent, random)
  if (isFinal || delayMs !== undefined || claim.spent >= MOST_ATTEMPTS || pauseMs >= work.leftMs())
    return fail(work, code)
  return { type: 'retry', delayMs: pauseMs, error: faultOfTask(work, code) }
}

function fail(work: Work, code: string): Promise<SettledEnd> {
  return end(work, { outcome: 'failed', code })
}

type Ending =
  | Pick<Extract<CompactionEnd, { outcome: 'done' }>, 'outcome' | 'upto' | 'text' | 'more' | 'eraseCount'>
  | Pick<Extract<CompactionEnd, { outcome: 'failed' }>, 'outcome' | 'code'>

/** Sent until PostgreSQL answers. A repeat after an unknown outcome is fenced if the first one was stored. A summary that PostgreSQL
 *  rejects must not hold up the messages that wait for it: then the compaction fails. */
async function end(
  { claim, pod, open, gaveUp: signal, deps, log }: Work,
  ending: Ending,
): Promise<SettledEnd> {
  const key = {
    tenant: claim.tenant,
    session: open.session,
    compaction: claim.id,
    attempt: claim.attempt,
    pod,
  }
  let sent = ending
  const onFailure = (error: unknown, failures: number) => {
    if (failures === 0) log.warn('a compaction could not be ended yet', { error })
    if (isValueFault(error)) sent = failureOf(ending, 'agent_protocol')
    else if (failures >= PATIENCE && kindOf(error) !== 'Retry') sent = failureOf(ending, 'internal')
  }
  const ended = await retryUntilAnswered({ ...deps, signal, onFailure }, () =>
    deps.sessions.endCompaction({ ...key, ...sent }),
  )
  const answer = ended === undefined ? 'unanswered' : ended.type === 'ended' ? 'settled' : 'fenced'
  return { type: sent.outcome, answer }
}

/** The failure that the compaction had before, if it had one. */
function failureOf(ending: Ending, code: string): Ending {
  return ending.outcome === 'failed' ? ending : { outcome: 'failed', code }
}

function faultOfTask({ claim, clock }: Attempt, code: string): string {
  return faultOf({ code, message: 'An attempt of a compaction failed', attempt: claim.attempt, clock })
}
