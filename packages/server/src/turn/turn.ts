// One attempt of a turn: check, gather, call, settle. Guarantees:
//   E1  nothing of it is in the log unless its epoch and its claim were current in the transaction that wrote it
//   E5  however often it was begun, a turn ends once, with its reply or with a failure that people see
//   D4  what is stored is what the agent's chunks make
//
//   the attempt                                                  what becomes of the turn
//   its claim is another's by now                                nothing: fenced
//   is the fifth that counts: pods died with the four before     failed: `attempts_used_up`
//   PostgreSQL cannot be read                                    waits; does not count
//   the agent is none that this pod knows                        as if it had failed
//   the agent answered                                           done, with its message, or with none if it has nothing to say
//   the agent failed                                             waits, and is called again; at the fourth attempt failed
//   the agent failed for good (its protocol, abort)              failed
//   the agent asked for later                                    waits until then; does not count
//   the pod stops, or was counted as dead                        handed back; does not count
// The end is sent until PostgreSQL answers: an end that was there already, by this attempt, is known again. Task rows keep
// the code of a fault, never its message, which may quote what was said.
import type { Message } from '@fleetline/protocol'
import type { Agents } from '../agent/agent.ts'
import { Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import { insist } from '../lib/insist.ts'
import type { Random } from '../lib/random.ts'
import { draftOf } from '../session/draft.ts'
import type { TurnEnd, TurnError } from '../session/place.ts'
import type { Sessions } from '../session/sessions.ts'
import { openTurn, TURN_TRACK, type OpenTurn } from '../session/turns.ts'
import { valueOf, type Database } from '../store/database.ts'
import { isValueFault } from '../store/sqlstate.ts'
import { faultOf, readThrown, retryMs, type Ended, type OfPod, type Surroundings } from '../task/attempt.ts'
import type { Claim } from '../task/claim.ts'
import type { OwnRunner } from '../task/own.ts'
import type { Settlement } from '../task/settle.ts'
import { AgentFault, CALL_LIMITS, callAgent } from './call.ts'
import { gather } from './gather.ts'

type Deps = {
  readonly database: Pick<Database, 'transaction'>
  readonly sessions: Pick<Sessions, 'read' | 'endTurn'>
  readonly agents: Agents
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

/** Attempts that count. */
export const MOST_ATTEMPTS = 4
const LATER_MS = 1_000

const USED_UP: TurnError = {
  code: 'attempts_used_up',
  message: `The pods of ${MOST_ATTEMPTS} attempts died before the reply was stored`,
}
const UNSTORABLE: TurnError = { code: 'agent_protocol', message: 'PostgreSQL cannot store the reply' }
const UNKNOWN_AGENT = 'The pods that took the turn do not have its agent: deploy it to every pod'

type Attempt = Surroundings & OfPod & { readonly claim: Claim }
type End = Settlement | Ended

export function createTurnRunner(deps: Deps): OwnRunner {
  return {
    track: TURN_TRACK,
    run: async (claim, around) => {
      const attempt = { ...around, claim }
      try {
        const turn = await open(deps, attempt)
        return turn ? await work(deps, attempt, turn) : { type: 'back', answer: 'fenced' }
      } catch (error) {
        return notBegun(attempt, error)
      }
    },
  }
}

async function open({ database }: Deps, { claim, pod }: Attempt): Promise<OpenTurn | undefined> {
  const held = { id: claim.id, attempt: claim.attempt, pod }
  const outcome = await database.transaction((query) => openTurn(query, claim.tenant, held))
  return valueOf(outcome, 'The turn cannot be opened')
}

/** Rejects if there was nothing to call the agent with. */
async function work(deps: Deps, attempt: Attempt, turn: OpenTurn): Promise<End> {
  const { claim, ending } = attempt
  if (claim.spent > MOST_ATTEMPTS) return fail(deps, attempt, turn, USED_UP)
  const agent = deps.agents.get(turn.agent)
  if (!agent) return failed(deps, attempt, turn, new AgentFault('agent_unknown', UNKNOWN_AGENT, false))
  const call = await gather({ ...deps.sessions, cell: deps.cell }, claim, turn)
  await crashPoint('turn.gathered')
  let message: Message | undefined
  try {
    const limited = { clock: deps.clock, limits: CALL_LIMITS }
    message = await callAgent(limited, agent, { ...call, signal: ending.signal })
  } catch (error) {
    return failed(deps, attempt, turn, error)
  }
  await crashPoint('turn.ending')
  const draft = message && draftOf({ ...message, author: { kind: 'agent', id: agent.name } })
  return end(deps, attempt, turn, { outcome: 'done', draft })
}

function notBegun(attempt: Attempt, error: unknown): Settlement {
  if (attempt.ending.signal.aborted) return { type: 'back' }
  attempt.log.warn('a turn could not be begun', { error })
  const fault = faultOfTask(attempt, 'unavailable')
  if (error instanceof Retry) return { type: 'later', delayMs: LATER_MS, error: fault }
  return { type: 'retry', delayMs: retryMs(attempt.claim.spent, attempt.random), error: fault }
}

async function failed(deps: Deps, attempt: Attempt, turn: OpenTurn, error: unknown): Promise<End> {
  const { claim, ending, clock, random } = attempt
  if (ending.signal.aborted) return { type: 'back' }
  const { code, message, kind, delayMs } = readThrown(error, clock)
  if (kind === 'Abort') return fail(deps, attempt, turn, { code: 'aborted', message })
  if (delayMs !== undefined) return { type: 'later', delayMs, error: faultOfTask(attempt, 'later') }
  const isFinal = error instanceof AgentFault && error.isFinal
  if (isFinal || claim.spent >= MOST_ATTEMPTS) return fail(deps, attempt, turn, { code, message })
  return { type: 'retry', delayMs: retryMs(claim.spent, random), error: faultOfTask(attempt, code) }
}

function fail(deps: Deps, attempt: Attempt, turn: OpenTurn, error: TurnError): Promise<Ended> {
  attempt.log.warn('a turn failed', { code: error.code })
  return end(deps, attempt, turn, { outcome: 'failed', error })
}

type Outcome =
  | Pick<Extract<TurnEnd, { outcome: 'done' }>, 'outcome' | 'draft'>
  | Pick<Extract<TurnEnd, { outcome: 'failed' }>, 'outcome' | 'error'>

async function end(deps: Deps, attempt: Attempt, turn: OpenTurn, outcome: Outcome): Promise<Ended> {
  const { claim, pod, log, gaveUp: signal } = attempt
  const { session, epoch } = turn
  const key = { tenant: claim.tenant, session, turn: claim.id, epoch, attempt: claim.attempt, pod }
  let sent = outcome
  const onFailure = (error: unknown, failures: number) => {
    if (failures === 0) log.warn('a turn could not be ended yet', { error })
    if (isValueFault(error)) sent = { outcome: 'failed', error: UNSTORABLE }
  }
  const ended = await insist({ ...deps, signal, onFailure }, () => deps.sessions.endTurn({ ...key, ...sent }))
  const answer = ended === undefined ? 'unanswered' : ended.type === 'ended' ? 'settled' : 'fenced'
  return { type: sent.outcome, answer }
}

function faultOfTask({ claim, clock }: Attempt, code: string): string {
  return faultOf({ code, message: 'An attempt of a turn failed', attempt: claim.attempt, clock })
}
