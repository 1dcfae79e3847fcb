// A conversation with everything that logs contain, at once. If the agent fails, each part is tried alone, so that the verdict names it.
import { failed, ok, type Problem, type Verdict } from './finding.ts'
import { HISTORY, type Chapter } from './history-messages.ts'
import { problemOf } from './problem.ts'
import { isReachable, type Visit } from './visit.ts'

export async function checkHistory(visit: Visit): Promise<Verdict> {
  const problem = await tryWith(visit, HISTORY)
  if (!problem) return ok('The agent answered a conversation with files, stopped replies and calls of tools')
  if (problem.code === 'rate_limited') return failed(problem)
  const causes: Chapter[] = []
  for (const chapter of (await isGone(visit, problem)) ? [] : HISTORY) {
    const alone = await tryWith(visit, [chapter])
    if (alone && alone.code !== 'rate_limited') causes.push(chapter)
    if (await isGone(visit, alone)) break
  }
  const what = causes.map((chapter) => chapter.what).join(', and one with ') || 'all that logs contain'
  const remedies = new Set(causes.map((chapter) => chapter.remedy))
  const remedy = Array.from(remedies).join('. ') || problem.remedy
  return failed({ ...problem, remedy }, `When the conversation had ${what}`)
}

/** The agent may have ended at what it was sent: then later calls say nothing about their messages. */
async function isGone(visit: Visit, problem: Problem | undefined): Promise<boolean> {
  return problem?.code === 'unreachable' && !(await isReachable(visit))
}

function tryWith({ probe, calls, words }: Visit, chapters: readonly Chapter[]): Promise<Problem | undefined> {
  const messages = chapters.flatMap((chapter) => chapter.messages)
  const session = chapters.find((chapter) => chapter.session)?.session
  const call = calls.ofTurn([...messages, calls.said(words.greeting)], session)
  return probe.ask(call).then(problemOf)
}
