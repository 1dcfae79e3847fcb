// fleetline audit ls. Its code is loaded on demand (`audit/verbs.ts`). It reads the database, unless --operator-url or its variable
// names a pod.
import { AUDIT_ACTIONS, AUDIT_LIMITS } from '../identity/audit-actions.ts'
import type { CommandCall, Command } from './command.ts'

const list = async (call: CommandCall) => (await import('./audit/verbs.ts')).list(call)

export const AUDIT: readonly Command[] = [
  {
    name: 'audit ls',
    summary:
      'List the audit log, the newest row first: who changed tenants, keys, tokens, issuers, agents and retention, who erased data, and which requests were refused.',
    settings: ['databaseUrl', 'operatorUrl', 'apiKey'],
    options: [
      ['--tenant <name>', 'only rows about this tenant'],
      ['--actor <text>', 'only rows of this actor, for example "key 3cPx0mZqL7aB" or "user ada"'],
      ['--action <name>', `only this action: ${AUDIT_ACTIONS.join(', ')}`],
      ['--before <id>', 'only rows older than the one with this id'],
      ['--limit <number>', `how many rows, up to ${AUDIT_LIMITS.rows} (default ${AUDIT_LIMITS.usualRows})`],
    ],
    run: list,
  },
]
