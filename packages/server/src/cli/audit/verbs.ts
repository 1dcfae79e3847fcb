// fleetline audit ls.
import { Rejected } from '../../errors.ts'
import type { AuditFilter } from '../../identity/audit.ts'
import { AUDIT_ACTIONS, AUDIT_LIMITS } from '../../identity/audit-actions.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { withDirectory } from '../keys/directory.ts'
import { wholeOf } from '../options.ts'
import { EXIT } from '../output.ts'

const COLUMNS = [
  'id',
  'at',
  'tenant',
  'actor',
  'via',
  'address',
  'action',
  'target',
  'outcome',
  'reason',
  'times',
]

export async function list({ flags, options, output }: CommandCall): Promise<number> {
  const filter = filterOf(options)
  output.list(COLUMNS, await withDirectory({ flags, output }, (directory) => directory.listAudit(filter)))
  return EXIT.done
}

function filterOf({ tenant, actor, action, before, limit }: CommandOptions): AuditFilter {
  if (action !== undefined && !AUDIT_ACTIONS.some((known) => known === action))
    throw new Rejected('invalid', `--action: use one of ${AUDIT_ACTIONS.join(', ')}`)
  return {
    ...(typeof tenant === 'string' && { tenant }),
    ...(typeof actor === 'string' && { actor }),
    ...(typeof action === 'string' && { action }),
    ...(before !== undefined && {
      before: wholeOf('--before', before, { min: 1, max: Number.MAX_SAFE_INTEGER }),
    }),
    ...(limit !== undefined && { limit: wholeOf('--limit', limit, { min: 1, max: AUDIT_LIMITS.rows }) }),
  }
}
