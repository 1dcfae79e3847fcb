// The agent is asked to summarise a conversation.
import { failed, ok, type Verdict } from './finding.ts'
import { HISTORY } from './history-messages.ts'
import { problemOf } from './problem.ts'
import type { Visit } from './visit.ts'

const REMEDY =
  'Answer a request with the trigger compact with status 200, the content type application/json and {"summary": "…"}, of at most maxTokens tokens'

export async function checkSummaries({ probe, calls }: Visit): Promise<Verdict> {
  const heard = await probe.askSummary(calls.ofSummary(HISTORY.flatMap(({ messages }) => messages)))
  if (!heard.fault) return ok('The agent summarised a conversation')
  const { code, found, remedy } = problemOf(heard)!
  const isForm = code === 'agent_protocol' || code === 'agent_refused' || code === 'too_large'
  return failed({
    code: heard.fault.code,
    found: isForm ? heard.fault.message : found,
    remedy: isForm ? REMEDY : remedy,
  })
}
