// The first call: a conversation with one message.
import { failed, ok, type Verdict } from './finding.ts'
import { problemOf } from './problem.ts'
import { inMs, isWhole, type Visit } from './visit.ts'

export async function checkHello({ probe, calls, words, notes }: Visit): Promise<Verdict> {
  const call = calls.ofTurn([calls.said(words.greeting)])
  const heard = await probe.ask(call)
  notes.hello = { call, heard }
  const problem = problemOf(heard)
  if (problem) return { ...failed(problem), state: 'failed' } // the other checks need a reply
  const form = isWhole(heard) ? 'one JSON message' : 'a complete stream'
  return ok(`The agent answered with ${form} in ${inMs(heard.endMs)}`)
}
