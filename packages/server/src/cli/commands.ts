// The table of commands.
import type { Command } from './command.ts'
import { AGENTS } from './agents.ts'
import { AUDIT } from './audit.ts'
import { CONFIG_PRINT } from './config-print.ts'
import { DEV } from './dev.ts'
import { DOCTOR } from './doctor.ts'
import { DOWNSTREAMS } from './downstreams.ts'
import { ERASURES } from './erasures.ts'
import { INBOX } from './inbox.ts'
import { ISSUERS } from './issuers.ts'
import { MACHINES } from './machines.ts'
import { MIGRATE } from './migrate.ts'
import { PODS } from './pods.ts'
import { SESSIONS } from './sessions.ts'
import { START } from './start.ts'
import { KEYS } from './keys.ts'
import { TASKS } from './tasks.ts'
import { TOKENS } from './tokens.ts'
import { TURNS } from './turns.ts'
import { USAGE } from './usage.ts'

export const COMMANDS: readonly Command[] = [
  DEV,
  START,
  ...SESSIONS,
  INBOX,
  ...ERASURES,
  ...TURNS,
  USAGE,
  ...AGENTS,
  ...TASKS,
  ...MACHINES,
  ...DOWNSTREAMS,
  ...PODS,
  ...KEYS,
  ...TOKENS,
  ...ISSUERS,
  ...AUDIT,
  ...MIGRATE,
  CONFIG_PRINT,
  DOCTOR,
]

export const GROUPS: Readonly<Record<string, string>> = {
  sessions: 'Create, write and follow conversations.',
  users: 'Erase users.',
  erasures: 'Show what was erased, and what remains where.',
  retention: 'Set how long sessions are kept.',
  turns: 'Show replies of agents.',
  agents: 'Manage and check agents behind URLs.',
  tasks: 'Enqueue, show and retry work.',
  machines: 'Show how many tasks are at each step.',
  downstreams: 'Show how many calls providers take.',
  pods: 'Show the processes of the fleet.',
  tenants: 'Create and list tenants.',
  keys: 'Create, list and revoke API keys.',
  tokens: 'Revoke tokens of users.',
  issuers: 'Accept tokens of other issuers.',
  audit: 'Show who changed tenants, keys, tokens, issuers, agents and retention, and who erased data.',
  migrate: 'Create or update the schema of the database.',
  config: 'Show the settings.',
}
