// fleetline token, fleetline tokens revoke.
import { ALL_RIGHTS, USUAL_RIGHTS } from '../identity/scopes.ts'
import { TOKEN_LIMITS } from '../identity/token-limits.ts'
import type { CommandCall, Command } from './command.ts'

const verb = (name: keyof typeof import('./tokens/verbs.ts')) => async (call: CommandCall) =>
  (await import('./tokens/verbs.ts'))[name](call)

const settings = ['apiUrl', 'apiKey'] as const
const USER = ['--user <id>', 'the id that your application has for the user'] as const

export const TOKENS: readonly Command[] = [
  {
    name: 'token',
    summary:
      'Print a token for a user. With it, a browser reads and writes the sessions of which the user is a member.',
    settings,
    options: [
      USER,
      ['--sessions <list>', 'only for these sessions: ids or aliases, separated by commas'],
      [
        '--rights <list>',
        `some of ${ALL_RIGHTS.join(', ')}, separated by commas (default: ${USUAL_RIGHTS.join()})`,
      ],
      [
        '--seconds <number>',
        `how long it is valid, up to ${TOKEN_LIMITS.seconds} (default ${TOKEN_LIMITS.seconds})`,
      ],
    ],
    run: verb('mint'),
  },
  {
    name: 'tokens revoke',
    summary: 'Revoke all tokens that a user has now. Every pod rejects them within 5 seconds.',
    settings,
    options: [USER],
    run: verb('revoke'),
  },
]
