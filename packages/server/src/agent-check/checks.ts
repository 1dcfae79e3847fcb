// The checks of an agent, in the order in which they run. A check is skipped if one that it needs has failed or was skipped: one fault
// gives one failed line.
import { checkCut, checkRepeat } from './attempts.ts'
import type { AgentCheckName, Verdict } from './finding.ts'
import { checkHello } from './hello.ts'
import { checkHistory } from './history.ts'
import { checkSignature } from './signature.ts'
import { checkStop } from './stop.ts'
import { checkSlowReader, checkStream } from './stream.ts'
import { checkSummaries } from './summary.ts'
import { checkTools } from './tools.ts'
import type { Visit } from './visit.ts'

export type CheckRow = {
  readonly name: AgentCheckName
  readonly needs: readonly AgentCheckName[]
  readonly run: (visit: Visit) => Promise<Verdict>
}

export const CHECKS: readonly CheckRow[] = [
  { name: 'hello', needs: [], run: checkHello },
  { name: 'stream', needs: ['hello'], run: checkStream },
  { name: 'slow-reader', needs: ['stream'], run: checkSlowReader },
  { name: 'history', needs: ['hello'], run: checkHistory },
  { name: 'repeat', needs: ['hello'], run: checkRepeat },
  { name: 'cut', needs: ['stream', 'repeat'], run: checkCut },
  { name: 'stop', needs: ['stream'], run: checkStop },
  { name: 'signature', needs: ['hello'], run: checkSignature },
  { name: 'summary', needs: ['history'], run: checkSummaries },
  { name: 'tools', needs: ['hello'], run: checkTools },
]
