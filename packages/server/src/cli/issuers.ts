// fleetline issuers add | ls | rm. Their code is loaded on demand (`issuers/verbs.ts`). They use the database, unless --operator-url
// or its variable names a pod.
import { ISSUER_ALGORITHMS } from '../identity/issuer-limits.ts'
import type { CommandCall, Command } from './command.ts'

type Verb = keyof typeof import('./issuers/verbs.ts')
const verb = (name: Verb) => async (call: CommandCall) => (await import('./issuers/verbs.ts'))[name](call)

const settings = ['databaseUrl', 'operatorUrl', 'apiKey'] as const

export const ISSUERS: readonly Command[] = [
  {
    name: 'issuers add',
    summary:
      'Accept the tokens of an issuer (Auth0, Clerk, Supabase, your own) for users of one tenant. They read and write sessions of which they are members.',
    args: [['<name>', 'what you call it, for example auth0']],
    settings,
    options: [
      ['--tenant <name>', 'the tenant of its users'],
      ['--issuer <url>', 'the claim iss of its tokens, exactly'],
      ['--audience <text>', 'the claim aud of its tokens'],
      ['--jwks-url <url>', 'where its public keys are (default: .well-known/jwks.json below the issuer)'],
      ['--algorithms <list>', `some of ${ISSUER_ALGORITHMS.join(', ')}, separated by commas (default: all)`],
      [
        '--max-age <time>',
        'reject tokens that were issued longer ago, for example 1h, up to 1d (default 15m)',
      ],
    ],
    run: verb('add'),
  },
  { name: 'issuers ls', summary: 'List the issuers whose tokens are accepted.', settings, run: verb('list') },
  {
    name: 'issuers rm',
    summary: 'Remove an issuer. Every pod rejects its tokens within 5 seconds.',
    args: [['<name>', 'the name of the issuer']],
    settings,
    run: verb('remove'),
  },
]
