// fleetline users erase, erasures ls | get, retention get | set. Their code is loaded on demand, because other commands start in half the time
// without it.
import { PAGE_LIMITS } from '@fleetline/protocol'
import type { Command, CommandCall } from './command.ts'

const verb = (name: keyof typeof import('./erasures/verbs.ts')) => async (call: CommandCall) =>
  (await import('./erasures/verbs.ts'))[name](call)

const settings = ['apiUrl', 'apiKey'] as const

/** The option without which nothing is erased. */
export const CONFIRM = ['--yes', 'confirms that content may be erased; required'] as const

export const ERASURES: readonly Command[] = [
  {
    name: 'users erase',
    summary:
      'Erase a user: the sessions of which it is the only member, and its messages and membership in all others. It cannot be undone.',
    args: [['<user>', 'the id that your application has for the user']],
    settings,
    options: [CONFIRM],
    run: verb('eraseUser'),
  },
  {
    name: 'erasures ls',
    summary: 'List receipts of erasures, the newest first.',
    settings,
    options: [
      ['--before <erasure>', 'only erasures that were requested before this one'],
      ['--limit <number>', `the number of receipts, from 1 to ${PAGE_LIMITS.items} (default 50)`],
    ],
    run: verb('list'),
  },
  {
    name: 'erasures get',
    summary: 'Show the receipt of an erasure: what was erased, and what remains where.',
    args: [['<erasure>', 'the id of the erasure']],
    settings,
    run: verb('get'),
  },
  {
    name: 'retention get',
    summary: 'Show how many days sessions are kept after their last message or failed reply.',
    settings,
    run: verb('rules'),
  },
  {
    name: 'retention set',
    summary: 'Set how many days sessions are kept after their last message or failed reply, then erase them.',
    args: [
      [
        '<days>',
        'a number of days, or "off" to remove the rule: then an agent follows the rule for all other sessions',
      ],
    ],
    settings,
    options: [
      [
        '--agent <name>',
        'only sessions of this agent (default: all sessions that have no agent, or whose agent has no rule)',
      ],
      ['--dry-run', 'only count the sessions that all rules, with this one, would erase now'],
      [
        '--yes',
        'confirms that content may be erased; required unless you use --dry-run, or "off" without --agent',
      ],
    ],
    run: verb('setRule'),
  },
]
