// What one check of an agent has found.

export type AgentCheckName =
  | 'hello'
  | 'stream'
  | 'slow-reader'
  | 'history'
  | 'repeat'
  | 'cut'
  | 'stop'
  | 'signature'
  | 'summary'
  | 'tools'

export type AgentCheck = {
  readonly name: AgentCheckName
  /** `warning`: turns end as they should, but you should change this. `skipped`: the check could not be made. */
  readonly state: 'ok' | 'failed' | 'warning' | 'skipped'
  /** What was seen, without the last full stop. */
  readonly found: string
  /** What to do about it. */
  readonly remedy?: string
  /** The code with which a pod would end the turn, or try it again. */
  readonly code?: string
}

/** What a check says; the table knows its name. */
export type Verdict = Omit<AgentCheck, 'name'>

/** Why a reply is not as it should be. */
export type Problem = Required<Pick<AgentCheck, 'found' | 'remedy'>> & Pick<AgentCheck, 'code'>

export function ok(found: string): Verdict {
  return { state: 'ok', found }
}

export function warning(found: string, remedy: string): Verdict {
  return { state: 'warning', found, remedy }
}

export function skipped(found: string, remedy?: string): Verdict {
  return { state: 'skipped', found, ...(remedy !== undefined && { remedy }) }
}

/** A pod waits and calls again if the agent asks for later, so that is no fault of the agent. */
export function failed(problem: Problem, when?: string): Verdict {
  const found = when === undefined ? problem.found : `${when}: ${problem.found}`
  return { ...problem, state: problem.code === 'rate_limited' ? 'warning' : 'failed', found }
}
