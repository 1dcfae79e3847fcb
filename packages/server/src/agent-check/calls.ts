// Makes the calls that an agent is checked with. A pod would make the same ones for sessions and turns with these ids.
import { formatId, uuidV7, type Id, type Message, type Metadata } from '@fleetline/protocol'
import type { AgentCall, CompactCall } from '../agent/agent.ts'
import { settingsOf } from '../agent/settings.ts'
import { mostSummaryTokens } from '../conversation/budget.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Gathered } from '../turn/gather.ts'

/** Without its deadline and its signal, which the probe adds. */
export type TurnCall = Gathered['call']
export type SummaryCall = Omit<CompactCall, 'deadlineMs' | 'signal'>

export type Calls = {
  /** A call of a new turn in a new session. */
  ofTurn(
    messages: readonly Message[],
    session?: Partial<Pick<AgentCall['session'], 'title' | 'metadata'>>,
  ): TurnCall
  ofSummary(messages: readonly Message[]): SummaryCall
  /** A message of the user. */
  said(text: string, metadata?: Metadata): Message
}

type Deps = {
  readonly clock: Pick<Clock, 'now'>
  readonly random: Random
  /** The id of the user who asks. */
  readonly user: string | undefined
}

export const AGENT_NAME = 'check'
const CELL = 0

export function createCalls({ clock, random, user }: Deps): Calls {
  const newUuid = () => uuidV7(clock.now(), random.bytes(10))
  const newSession = (): Id<'session'> => formatId('session', CELL, newUuid())
  return {
    ofTurn: (messages, { title = null, metadata = null } = {}) => {
      const [id, turn] = [newSession(), newUuid()]
      return {
        id,
        trigger: 'submit-message',
        messages,
        turn: {
          id: formatId('turn', CELL, turn),
          epoch: 1,
          attempt: 1,
          messageId: formatId('message', CELL, turn),
          answers: { from: messages.length, to: messages.length },
          resume: 'restart',
        },
        session: { id, title, metadata },
        ...(user !== undefined && { user: { id: user } }),
        agent: { id: AGENT_NAME },
      }
    },
    ofSummary: (messages) => {
      const id = newSession()
      return {
        id,
        trigger: 'compact',
        messages,
        through: messages.length,
        maxTokens: mostSummaryTokens(settingsOf({}).compaction),
        turn: { id: formatId('turn', CELL, newUuid()), epoch: 1, attempt: 1 },
        session: { id, title: null, metadata: null },
        agent: { id: AGENT_NAME },
      }
    },
    said: (text, metadata) => ({
      id: formatId('message', CELL, newUuid()),
      role: 'user',
      parts: [{ type: 'text', text }],
      ...(metadata !== undefined && { metadata }),
    }),
  }
}

/** The same turn, called again. */
export function nextAttempt(call: TurnCall): TurnCall {
  return { ...call, turn: { ...call.turn, attempt: call.turn.attempt + 1 } }
}
