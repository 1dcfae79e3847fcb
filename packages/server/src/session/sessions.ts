// Sessions as the rest of the pod sees them: the directory of them, and the way into each one's log.
import type { Config } from '../config.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import type { Database } from '../store/database.ts'
import { createAppender, type Appender } from './append.ts'
import { createDirectory, type Directory } from './directory.ts'

export type Sessions = Service & Directory & Pick<Appender, 'append'>

type Deps = Pick<Config, 'cell' | 'transactionDeadlineMs'> & {
  readonly database: Pick<Database, 'transaction'>
  readonly clock: Clock
  readonly random: Random
}

export function createSessions(deps: Deps): Sessions {
  const appender = createAppender({ ...deps, deadlineMs: deps.transactionDeadlineMs })
  return { ...createDirectory(deps), ...appender, name: 'sessions' }
}
