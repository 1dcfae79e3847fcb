// A reply that is stopped: its request is closed, and other turns of the agent go on.
import { failed, ok, warning, type Problem, type Verdict } from './finding.ts'
import { problemOf } from './problem.ts'
import { SURVIVE, unlessFailed } from './attempts.ts'
import type { Heard } from './probe.ts'
import { cutOf, inMs, say, type Visit } from './visit.ts'

const END_WORK =
  'End the work of a request when its connection closes, also the call of the model: pass on the signal of the request, such as request.signal'
/** A call that takes so much longer than the first one may have waited for the stopped reply. */
const LATE = { times: 3, ms: 2_000 }

export async function checkStop(visit: Visit): Promise<Verdict> {
  const { words, notes } = visit
  const stopped = await say(visit, words.long, { cut: cutOf(visit) })
  if (!stopped.isCut) return unlessFailed(problemOf(stopped))
  const next = await say(visit, words.greeting)
  const problem = problemOf(next)
  if (problem) return failed(whenStopped(problem), 'When another turn was called after a stop')
  const [usualMs, nextMs] = [firstMs(notes.hello!.heard), firstMs(next)]
  if (nextMs > usualMs * LATE.times + LATE.ms)
    return warning(
      `After a stop, the next turn had its first words after ${inMs(nextMs)}, against ${inMs(usualMs)} in the first call`,
      END_WORK,
    )
  return ok(
    'After a stop, the next turn was answered at once. Whether the agent has also ended its call of the model cannot be seen from outside',
  )
}

function whenStopped(problem: Problem): Problem {
  if (problem.code === 'rate_limited') return problem
  return { ...problem, remedy: problem.code === 'unreachable' ? SURVIVE : END_WORK }
}

function firstMs({ wordsMs, endMs }: Heard): number {
  return wordsMs[0] ?? endMs
}
