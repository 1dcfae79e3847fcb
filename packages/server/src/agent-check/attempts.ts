// A turn that is called again, as pods do if a call breaks off or its pod dies. It has the same id and a higher attempt, and its
// reply starts from the beginning.
import { failed, ok, skipped, type Problem, type Verdict } from './finding.ts'
import { nextAttempt } from './calls.ts'
import { problemOf } from './problem.ts'
import { cutOf, say, textOf, type Visit } from './visit.ts'

const WHOLE_AGAIN =
  'A turn is called again under the same turn.id after a crash. Answer it whole again; do not reject it as a duplicate. Effects that must not happen twice take turn.id as their key'
export const SURVIVE =
  'Handle the errors of writing to a connection that the reader has closed, so that the agent survives it. Its log may say more'

export async function checkRepeat(visit: Visit): Promise<Verdict> {
  const { probe, words, notes } = visit
  const problem = problemOf(await probe.ask(nextAttempt(notes.hello!.call)))
  if (!problem) return ok('The same turn was answered whole again')
  const isOfRepeat = problem.code !== 'rate_limited' && !problemOf(await say(visit, words.greeting))
  const remedy = isOfRepeat ? WHOLE_AGAIN : problem.remedy
  return failed({ ...problem, remedy }, 'When the same turn was called again')
}

export async function checkCut(visit: Visit): Promise<Verdict> {
  const { probe, calls, words } = visit
  const call = calls.ofTurn([calls.said(words.long)])
  const cut = await probe.ask(call, { cut: cutOf(visit) })
  if (!cut.isCut) return unlessFailed(problemOf(cut))
  const again = await probe.ask(nextAttempt(call))
  const problem = problemOf(again)
  if (problem) return failed(rejected(problem), 'When a turn was called again after its connection was cut')
  const texts = { begun: textOf(cut.said), again: textOf(again.reply!) }
  if (isRest(texts, textOf(visit.notes.long!)))
    return failed({
      found: 'After its connection was cut, the second attempt began where the first one had stopped',
      remedy: WHOLE_AGAIN,
    })
  return ok('After its connection was cut, the same turn was answered whole')
}

/** A reply that ended, or failed, before the call could be cut. */
export function unlessFailed(problem: Problem | undefined): Verdict {
  return problem
    ? failed(problem, 'When asked for a long answer')
    : skipped(
        'The reply ended before the call could be cut',
        'Ask for something that takes the agent longer, with --message TEXT (in code: message)',
      )
}

/** Whether the second attempt continues the first. Seen only if the agent gives the same reply to the same message. */
function isRest(
  { begun, again }: { readonly begun: string; readonly again: string },
  whole: string,
): boolean {
  return begun !== '' && whole.startsWith(begun) && again.length < whole.length && whole.endsWith(again)
}

function rejected(problem: Problem): Problem {
  const { code } = problem
  if (code === 'unreachable') return { ...problem, remedy: SURVIVE }
  return code === 'agent_refused' || code === undefined ? { ...problem, remedy: WHOLE_AGAIN } : problem
}
