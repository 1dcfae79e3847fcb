// An agent, as a plain value: nothing calls it until a pod is given it. It is called with what an agent behind a URL would
// be sent, and answers with chunks of the AI SDK's UI message stream.
//   the agent's stream                                        its turn
//   ends behind `finish`                                      done, with the message that its chunks make
//   ends without it, breaks, says `error` or `abort`,         called again after a growing pause, until its attempts are
//   finishes with `error` or `interrupted`, is silent for     used up: then failed
//   too long
//   holds what is no chunk, a chunk at a wrong place, or      failed, and not called again: `agent_protocol`, `too_large`
//   too much
// The handler may also throw: retryAfter(…) is called again then, which counts as nothing; abort(…) ends the turn as failed.
// Every call of one turn has the same turn.id, to pass on to whoever must not do something twice.
import { TASK_NAME, type Id, type Message } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import { keyOf } from '../throttle/definition.ts'

export type AgentCall = {
  /** Of the session. */
  readonly id: Id<'session'>
  readonly trigger: 'submit-message'
  /** The last 500, or 2 MiB of them, the oldest first; a reply stands right behind the last message that it answers. */
  readonly messages: readonly Message[]
  readonly turn: {
    readonly id: Id<'turn'>
    readonly epoch: number
    /** Which call this is, of those that count. */
    readonly attempt: number
    /** Of the reply. */
    readonly messageId: Id<'message'>
    /** The messages that it answers, by their seqs. */
    readonly answers: { readonly from: number; readonly to: number }
    /** It begins anew: nothing of an earlier attempt is kept. */
    readonly resume: 'restart'
  }
  readonly session: { readonly id: Id<'session'>; readonly title: string | null }
  /** Who wrote the last message, if the application has said so. */
  readonly user?: { readonly id: string }
  readonly agent: { readonly id: string }
  /** What is left of the turn's time. */
  readonly deadlineMs: number
  /** Aborted when nobody waits for the reply any more: the pod stops, another has taken over, or it took too long. */
  readonly signal: AbortSignal
}

/** A stream of the AI SDK is one, and so is what an async generator yields. */
export type AgentAnswer = AsyncIterable<{ readonly type: string; readonly [field: string]: unknown }>

export type AgentOptions = {
  /** What it calls, by its key, if others share the limit of that. Without one, the fleet learns what this agent takes. */
  readonly downstream?: string
}

export type AgentDefinition = AgentOptions & {
  readonly name: string
  readonly answer: (call: AgentCall) => AgentAnswer | Promise<AgentAnswer>
}

/** Those of a pod's code, by their names. */
export type DefinedAgents = ReadonlyMap<string, AgentDefinition>

/** Among the chunks of an agent behind a URL: it has sent something, and no chunk yet. */
export const LIFE = Object.freeze({ type: 'life' })

/** Among them: a chunk as it came. Whoever reads it parses it. */
export class ChunkText {
  readonly [field: string]: unknown
  readonly type = 'text of a chunk'
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const MARK = Symbol.for('fleetline.agent') // of any copy of this module

export function agent(
  name: string,
  answer: AgentDefinition['answer'],
  { downstream }: AgentOptions = {},
): AgentDefinition {
  if (!TASK_NAME.test(name))
    throw new Rejected('invalid', `agent ${name}: its name must match ${TASK_NAME.source}`)
  const shared = downstream === undefined ? {} : { downstream: keyOf(downstream) }
  return Object.freeze({ [MARK]: true, name, answer, ...shared })
}

export function isAgent(value: unknown): value is AgentDefinition {
  return typeof value === 'object' && value !== null && MARK in value
}

/** By their names; of the `others`, those whose name is still free. */
export function agentsOf(
  definitions: readonly AgentDefinition[],
  others: readonly AgentDefinition[] = [],
): DefinedAgents {
  const agents = new Map(definitions.map((one) => [one.name, one]))
  const twice = definitions.find((one) => agents.get(one.name) !== one)
  if (twice) throw new Rejected('invalid', `Two agents are defined as ${twice.name}: rename one`)
  return new Map([...others.map((one) => [one.name, one] as const), ...agents])
}
