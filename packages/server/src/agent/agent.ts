// An agent as a plain value. Nothing calls it until you pass it to a pod. It gets what an agent behind a URL is sent, and
// answers with chunks of the AI SDK's UI message stream.
//   the agent's stream                                        its turn
//   ends after `finish`                                       done, with the message that its chunks make
//   ends without it, breaks off, sends `error` or `abort`,    called again after a growing pause; failed once its attempts
//   finishes with `error` or `interrupted`, is silent for     are used up
//   too long
//   has something that is no chunk, a chunk in the wrong      failed, and not called again: `agent_protocol`, `too_large`
//   place, or too much
// The handler may also throw. After retryAfter(…) it is called again, and the attempt does not count; abort(…) ends the turn
// as failed. Every call of a turn has the same turn.id: pass it on to services that must not do something twice.
import { TASK_NAME, type Id, type Message, type Metadata } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Budget } from '../conversation/budget.ts'
import { keyOf } from '../throttle/definition.ts'
import { checkSettings, settingsOf, type AgentSettings, type SettingsChange } from './settings.ts'

export type AgentCall = {
  /** The id of the session. */
  readonly id: Id<'session'>
  /** `regenerate-message`: a reply is written anew. */
  readonly trigger: 'submit-message' | 'regenerate-message'
  /** The id of the reply that is written anew, if there was one. */
  readonly messageId?: string
  /** The last ones, oldest first: 500 or 2 MiB, or what the agent's `window` says. The first message may be a summary of the earlier
   *  ones. A reply comes right after the last message that it answers. */
  readonly messages: readonly Message[]
  readonly turn: {
    readonly id: Id<'turn'>
    readonly epoch: number
    /** The number of this call, of those that count. */
    readonly attempt: number
    /** The id of the reply. */
    readonly messageId: Id<'message'>
    /** The seqs of the messages that this turn answers. */
    readonly answers: { readonly from: number; readonly to: number }
    /** The reply starts again: nothing of an earlier attempt is kept. */
    readonly resume: 'restart'
  }
  readonly session: {
    readonly id: Id<'session'>
    readonly title: string | null
    /** Of the application. */
    readonly metadata: Metadata | null
  }
  /** The author of the last user message, if the application has named one. */
  readonly user?: { readonly id: string }
  readonly agent: { readonly id: string }
  /** How much of the turn's time is left. */
  readonly deadlineMs: number
  /** Aborted when nobody waits for the reply any more: the pod stops, another pod has taken over, or it took too long. */
  readonly signal: AbortSignal
}

/** A conversation that has become long, and is to be summarised. */
export type CompactCall = Pick<
  AgentCall,
  'id' | 'messages' | 'session' | 'agent' | 'deadlineMs' | 'signal'
> & {
  readonly trigger: 'compact'
  /** The seq up to which the summary reaches. If there is an earlier summary, it is the first message. */
  readonly through: number
  /** How long the summary may be, in tokens of four bytes. A longer one is rejected. */
  readonly maxTokens: number
  /** `id`: of the compaction, the same in every attempt. No turn has this id. */
  readonly turn: Pick<AgentCall['turn'], 'id' | 'epoch' | 'attempt'>
}

/** For example a stream of the AI SDK, or what an async generator yields. */
export type AgentAnswer = AsyncIterable<{ readonly type: string; readonly [field: string]: unknown }>

export type AgentOptions = Omit<SettingsChange, 'compaction' | 'protocol'> & {
  /** Returns a summary of the messages. Conversations are compacted if it is given; `compaction` says when. */
  readonly compact?: AgentDefinition['compact']
  readonly compaction?: Partial<Budget>
  /** The key of a downstream that the agent shares with others. Without it, the fleet learns how many calls this agent takes. */
  readonly downstream?: string
}

export type AgentDefinition = Pick<AgentOptions, 'downstream'> & {
  readonly name: string
  readonly settings: AgentSettings
  readonly answer: (call: AgentCall) => AgentAnswer | Promise<AgentAnswer>
  readonly compact?: ((call: CompactCall) => string | Promise<string>) | undefined
}

/** The agents in a pod's code, by name. */
export type DefinedAgents = ReadonlyMap<string, AgentDefinition>

/** Appears among the chunks of an agent behind a URL: it has sent something, but no complete chunk yet. */
export const LIFE = Object.freeze({ type: 'life' })

/** Also appears among them: a chunk as it came, which the reader parses. */
export class ChunkText {
  readonly [field: string]: unknown
  readonly type = 'text of a chunk'
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const MARK = Symbol.for('fleetline.agent') // shared by all copies of this module

export function agent(
  name: string,
  answer: AgentDefinition['answer'],
  { downstream, compact, compaction, window }: AgentOptions = {},
): AgentDefinition {
  if (!TASK_NAME.test(name))
    throw new Rejected('invalid', `agent ${name}: its name must match ${TASK_NAME.source}`)
  const settings = { window, compaction: { ...compaction, enabled: compact !== undefined } }
  checkSettings(`agent ${name}`, settings)
  const shared = downstream === undefined ? {} : { downstream: keyOf(downstream) }
  const summary = compact === undefined ? {} : { compact }
  return Object.freeze({ [MARK]: true, name, answer, settings: settingsOf(settings), ...summary, ...shared })
}

export function isAgent(value: unknown): value is AgentDefinition {
  return typeof value === 'object' && value !== null && MARK in value
}

/** By name. An agent of `others` is used only if its name is free. */
export function agentsOf(
  definitions: readonly AgentDefinition[],
  others: readonly AgentDefinition[] = [],
): DefinedAgents {
  const agents = new Map(definitions.map((one) => [one.name, one]))
  const twice = definitions.find((one) => agents.get(one.name) !== one)
  if (twice) throw new Rejected('invalid', `Two agents are defined as ${twice.name}: rename one`)
  return new Map([...others.map((one) => [one.name, one] as const), ...agents])
}
