// What the checks of one agent share: how to call it, what to say to it, and what earlier checks have heard.
import type { Message } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Probe, Heard, Manner } from './probe.ts'
import type { Calls, TurnCall } from './calls.ts'

export type Visit = {
  readonly probe: Probe
  readonly calls: Calls
  readonly clock: Clock
  readonly random: Random
  readonly words: {
    readonly greeting: string
    /** Asks for a reply that takes the agent a while. */
    readonly long: string
    /** Makes the agent call a tool. */
    readonly tool: string | undefined
  }
  /** How long the slow reader stops reading. */
  readonly pauseMs: number
  readonly notes: Notes
}
type Notes = {
  /** The first call and its reply. */
  hello?: { readonly call: TurnCall; readonly heard: Heard }
  /** What the agent replied when it was asked for a long answer. */
  long?: Message
}

/** Calls the agent with one message of the user. */
export function say({ probe, calls }: Visit, text: string, manner?: Manner): Promise<Heard> {
  return probe.ask(calls.ofTurn([calls.said(text)]), manner)
}

/** Whether another call reaches the agent. */
export async function isReachable(visit: Visit): Promise<boolean> {
  const { fault } = await say(visit, visit.words.greeting)
  return fault?.code !== 'unreachable'
}

/** Such an answer comes in one piece, so nothing happens in its middle. */
export function isWhole({ head }: Pick<Heard, 'head'>): boolean {
  return head?.status === 204 || head?.type === 'application/json'
}

/** How to cut a call in the middle of its reply. */
export function cutOf({ notes: { hello } }: Visit): 'at-words' | number {
  return hello && isWhole(hello.heard) ? hello.heard.endMs / 2 : 'at-words'
}

export function textOf({ parts }: Message): string {
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('')
}

export function inMs(ms: number): string {
  return `${Math.round(ms)} ms`
}
