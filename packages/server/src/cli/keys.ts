// fleetline tenants create | ls, fleetline keys create | ls | revoke. Their code is loaded on demand (`keys/verbs.ts`). Somebody
// has to create the first key, so these commands use the database, unless --operator-url or its variable names a pod.
import { KEY_LIMITS } from '../identity/key-limits.ts'
import { OPERATOR_SCOPES, TENANT_SCOPES, USUAL_SCOPES } from '../identity/scopes.ts'
import type { CommandCall, Command } from './command.ts'

type Verb = keyof typeof import('./keys/verbs.ts')
const verb = (name: Verb) => async (call: CommandCall) => (await import('./keys/verbs.ts'))[name](call)

const settings = ['databaseUrl', 'operatorUrl', 'apiKey'] as const
const TENANT = '--tenant <name>'

export const KEYS: readonly Command[] = [
  {
    name: 'tenants create',
    summary: 'Create a tenant. Callers of one tenant never see data of another.',
    args: [['<name>', 'lower-case letters, digits and dashes, no dash first']],
    settings,
    run: verb('createTenant'),
  },
  { name: 'tenants ls', summary: 'List the tenants.', settings, run: verb('listTenants') },
  {
    name: 'keys create',
    summary: `Create an API key. It is printed once, or written into a file (--out). At most ${KEY_LIMITS.ofOneName} live keys may have the same name: the one in use and its successor.`,
    args: [['<name>', 'what uses the key, for example backend']],
    settings,
    options: [
      [TENANT, 'whose data the key opens'],
      ['--operator', "instead of --tenant: a key for the operator's port"],
      [
        '--scopes <list>',
        `what it may do, separated by commas. Of a tenant: ${listed(TENANT_SCOPES)} (default ${USUAL_SCOPES.tenant.join()}). Of an operator: ${listed(OPERATOR_SCOPES)} (default ${USUAL_SCOPES.operator.join()})`,
      ],
      [
        '--days <number>',
        `how many days it is valid, up to ${KEY_LIMITS.days} (default ${KEY_LIMITS.usualDays})`,
      ],
      [
        '--out <file>',
        'write the key into this new file, for its owner only, instead of printing it; if the write fails, the key is printed',
      ],
      ['--test', 'begin its text with fl_test_ instead of fl_live_; nothing else changes'],
    ],
    run: verb('createKey'),
  },
  {
    name: 'keys ls',
    summary: 'List the keys, the newest first. A key that has ended is listed for 90 days.',
    settings,
    options: [
      [TENANT, 'only the keys of this tenant (default: all)'],
      ['--operator', 'only the keys of operators'],
    ],
    run: verb('listKeys'),
  },
  {
    name: 'keys revoke',
    summary: 'Revoke a key. Every pod rejects it within 5 seconds, usually at once.',
    args: [['<id>', 'the id of the key, as `keys ls` shows it, or the whole key']],
    settings,
    run: verb('revokeKey'),
  },
]

function listed(scopes: object): string {
  return Object.keys(scopes).join(', ')
}
