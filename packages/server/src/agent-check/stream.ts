// Whether words reach the reader while the agent works, and whether a reader may be slow.
import type { Heard } from './probe.ts'
import { failed, ok, skipped, warning, type Verdict } from './finding.ts'
import { problemOf } from './problem.ts'
import { inMs, isWhole, say, type Visit } from './visit.ts'

/** Words that came sooner were not held back. */
const SOON_MS = 500
/** Words that came at once after a wait were held back, if they came within this time, and within this part of the whole. */
const AT_ONCE = { ms: 250, part: 0.1 }

export async function checkStream(visit: Visit): Promise<Verdict> {
  const heard = await say(visit, visit.words.long)
  const problem = problemOf(heard)
  if (problem) return failed(problem, 'When asked for a long answer')
  visit.notes.long = heard.reply!
  return judgeStream(heard)
}

export function judgeStream(heard: Pick<Heard, 'head' | 'wordsMs' | 'endMs'>): Verdict {
  if (isWhole(heard))
    return ok('The agent answers with one JSON message, so readers see a reply when it is complete')
  const { wordsMs, endMs } = heard
  if (wordsMs.length === 0) return ok('The reply has no text that could be streamed')
  const [firstMs = endMs, lastMs = endMs] = [wordsMs[0], wordsMs.at(-1)]
  const isAtOnce = lastMs - firstMs < Math.min(AT_ONCE.ms, endMs * AT_ONCE.part)
  if (firstMs < SOON_MS || !isAtOnce)
    return ok(`The first words came after ${inMs(firstMs)}, the last ones after ${inMs(lastMs)}`)
  if (wordsMs.length === 1)
    return warning(
      `The whole text came in one chunk after ${inMs(firstMs)}`,
      'Send a text-delta for each piece as soon as the model has written it, so that readers see the reply grow',
    )
  return warning(
    `All ${wordsMs.length} pieces of the text came at once, after ${inMs(firstMs)}`,
    'Find what holds back the answer, and disable it for this route: most often it is the buffering of a proxy (nginx: proxy_buffering off, or the header x-accel-buffering: no) or compression, or the agent writes only when it is done',
  )
}

export async function checkSlowReader(visit: Visit): Promise<Verdict> {
  const { pauseMs, words, notes } = visit
  if (isWhole(notes.hello!.heard))
    return skipped('The agent answers with one JSON message, which is read at once')
  const problem = problemOf(await say(visit, words.long, { pauseMs }))
  if (!problem) return ok(`The reply ended whole although its reader paused for ${inMs(pauseMs)}`)
  const remedy = 'Raise the time limits for writing an answer, in the agent and in proxies in front of it'
  const isSlowness = ['incomplete', 'timeout', 'unreachable'].includes(problem.code ?? '')
  return failed({ ...problem, ...(isSlowness && { remedy }) }, `When the reader paused for ${inMs(pauseMs)}`)
}
