// Checks an agent behind a URL: calls it as a pod would, and tries what happens in production. It needs no fleet and no database.
// It calls the agent about a dozen times, one call after the other, and stores nothing.
//   a check                                          the checks that need it
//   is ok, or warns                                  run
//   fails                                            are skipped, and say which one failed
//   fails because the agent cannot be reached        all later ones are skipped, unless another call reaches it
// After 30 minutes, the check under way has failed, and the rest are skipped.
import { hrefOf } from '../agent/directory.ts'
import { createGuard } from '../agent/guard.ts'
import type { Protocol } from '../agent/settings.ts'
import { isSecret, SECRET_RULE } from '../agent/signature.ts'
import { Rejected } from '../errors.ts'
import { systemClock, type Clock } from '../lib/clock.ts'
import { systemRandom, type Random } from '../lib/random.ts'
import { CALL_LIMITS, type CallLimits } from '../turn/call.ts'
import { ANY_HOST, createProbe } from './probe.ts'
import { createCalls } from './calls.ts'
import { CHECKS, type CheckRow } from './checks.ts'
import { failed, skipped, type AgentCheck, type Verdict } from './finding.ts'
import { isReachable, type Visit } from './visit.ts'

export type AgentCheckOptions = {
  /** The secret that signs the calls: whsec_ and base64. */
  readonly secret: string
  /** What the agent speaks. Default: ai-sdk. */
  readonly protocol?: Protocol | undefined
  /** What to say to the agent. Default: a greeting, and for some checks a request for a long answer. */
  readonly message?: string | undefined
  /** What to say to make the agent call a tool. */
  readonly toolMessage?: string | undefined
  /** The id of the user who asks. Default: nobody is named. */
  readonly user?: string | undefined
  /** Also asks the agent for a summary. */
  readonly compact?: boolean | undefined
  /** How long the agent may be silent. Default: 30 s until its first byte, then 60 s, as on a pod. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

type Deps = {
  readonly clock: Clock
  readonly random: Random
  /** How long the slow reader stops reading. */
  readonly pauseMs: number
}
type CheckAgent = (url: string, options: AgentCheckOptions) => AsyncGenerator<AgentCheck, void>

const TIMEOUT_MS = { least: 100, most: 600_000 }
const ALL_MS = 1_800_000
const LATE = new Error('The checks took too long')
const TIME_IS_OVER = 'All checks together have taken 30 minutes, which is the most that they may take'
const GOOD: readonly AgentCheck['state'][] = ['ok', 'warning']
const WORDS = {
  greeting: 'Hello! Please answer in one sentence.',
  long: 'Please write a long answer, of at least two hundred words, about the history of bread.',
}

/** Yields what each check has found, as soon as it has run. Throws at once if the URL or an option is not valid. */
export const checkAgent: CheckAgent = createAgentCheck({
  clock: systemClock(),
  random: systemRandom(),
  pauseMs: 1_000,
})

export function createAgentCheck({ clock, random, pauseMs }: Deps): CheckAgent {
  return (text, options) => {
    const url = hrefOf('url', text, createGuard({ open: ANY_HOST, clock }))
    const { secret, protocol = 'ai-sdk', message, toolMessage: tool, user, compact = false } = options
    checkOptions(options)
    const late = new AbortController()
    const signal = AbortSignal.any([late.signal, ...(options.signal ? [options.signal] : [])])
    const visit: Visit = {
      probe: createProbe({ url, secret, protocol, clock, signal, limits: limitsOf(options) }),
      calls: createCalls({ clock, random, user }),
      clock,
      random,
      words: { ...WORDS, ...(message !== undefined && { greeting: message, long: message }), tool },
      pauseMs,
      notes: {},
    }
    return runAll(visit, { isCompact: compact, late })
  }
}

type Run = { readonly isCompact: boolean; readonly late: AbortController }

async function* runAll(visit: Visit, { isCompact, late }: Run): AsyncGenerator<AgentCheck, void> {
  const [over, done] = [new AbortController(), [] as AgentCheck[]]
  let lost: AgentCheck | undefined
  visit.clock.sleep(ALL_MS, over.signal).then(
    () => late.abort(LATE),
    () => undefined,
  )
  try {
    for (const check of CHECKS) {
      if (check.name === 'summary' && !isCompact) continue
      const verdict = await runInTime(async () => {
        if (late.signal.aborted) return skipped(TIME_IS_OVER)
        lost ??= await lostIn(visit, done.at(-1))
        const obstacle = lost ? `The agent cannot be reached: see ${lost.name}` : obstacleTo(check, done)
        return obstacle === undefined ? check.run(visit) : skipped(obstacle)
      })
      const one = { name: check.name, ...verdict }
      done.push(one)
      yield one
    }
  } finally {
    over.abort()
  }
}

/** The check that has just failed, if the agent cannot be reached any more. An agent may close one connection and answer the next. */
async function lostIn(visit: Visit, last: AgentCheck | undefined): Promise<AgentCheck | undefined> {
  if (last?.state !== 'failed' || last.code !== 'unreachable') return undefined
  return last.name === 'hello' || !(await isReachable(visit)) ? last : undefined
}

/** Why this check cannot be made. */
function obstacleTo({ needs }: Pick<CheckRow, 'needs'>, done: readonly AgentCheck[]): string | undefined {
  const missing = done.find(({ name, state }) => needs.includes(name) && !GOOD.includes(state))
  return (
    missing && `It needs ${missing.name}, which ${missing.state === 'failed' ? 'has failed' : 'was skipped'}`
  )
}

async function runInTime(run: () => Promise<Verdict>): Promise<Verdict> {
  try {
    return await run()
  } catch (error) {
    if (error !== LATE) throw error
    return failed({
      found: TIME_IS_OVER,
      remedy: 'Ask for something that the agent answers sooner, with --message TEXT (in code: message)',
    })
  }
}

function checkOptions({
  secret,
  protocol,
  message,
  toolMessage,
  compact,
  timeoutMs,
}: AgentCheckOptions): void {
  if (protocol === 'ag-ui' && compact)
    throw new Rejected(
      'invalid',
      'compact (--compact) does not work with the protocol ag-ui: AG-UI has no request for a summary. Run a second check with --compact on the URL that writes summaries, without --protocol',
    )
  if (!isSecret(secret)) throw new Rejected('invalid', `secret: must be ${SECRET_RULE}`)
  for (const [name, text] of Object.entries({ message, toolMessage }))
    if (text?.trim() === '') throw new Rejected('invalid', `${name}: must not be empty`)
  const { least, most } = TIMEOUT_MS
  if (timeoutMs !== undefined && !(timeoutMs >= least && timeoutMs <= most))
    throw new Rejected('invalid', `timeoutMs: must be a number from ${least} to ${most}`)
}

function limitsOf({ timeoutMs }: AgentCheckOptions): CallLimits {
  if (timeoutMs === undefined) return CALL_LIMITS
  return { ...CALL_LIMITS, firstMs: timeoutMs, silenceMs: timeoutMs }
}
