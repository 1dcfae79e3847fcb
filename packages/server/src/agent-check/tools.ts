// Calls of tools in the replies so far. A call without a result stays in the log, and models reject a conversation that has one.
import { isCall, type Part } from '@fleetline/protocol'
import { failed, ok, skipped, type Verdict } from './finding.ts'
import { problemOf } from './problem.ts'
import { say, type Visit } from './visit.ts'

const RESULTS = ['output-available', 'output-error', 'output-denied']

export async function checkTools(visit: Visit): Promise<Verdict> {
  const { probe, words } = visit
  if (words.tool !== undefined) {
    const problem = problemOf(await say(visit, words.tool))
    if (problem) return failed(problem, 'When asked to call a tool')
  }
  const all = probe.replies.flatMap(({ parts }) => parts).filter(isCall)
  if (all.length === 0)
    return skipped(
      'No reply called a tool',
      'Say what makes the agent call one, with --tool-message TEXT (in code: toolMessage)',
    )
  const open = new Set(all.filter(isOpen).map((part) => `${nameOf(part)} (${String(part['state'])})`))
  if (open.size === 0) return ok('Every call of a tool in these replies has a result')
  return failed({
    found: `Calls of these tools were left without output, error or denial: ${[...open].join(', ')}`,
    remedy:
      'End every call within the reply, with its output or its error (AG-UI: TOOL_CALL_RESULT). Approvals, and tools that run in the page, are not supported yet',
  })
}

function isOpen({ state }: Part): boolean {
  return !RESULTS.includes(String(state))
}

function nameOf({ type, toolName }: Part): string {
  return type === 'dynamic-tool' ? String(toolName) : type.slice('tool-'.length)
}
