// fleetline agents ls | add | rm. Their code is loaded on demand (`agents/verbs.ts`).
import type { CommandCall, Command } from './command.ts'

const verb = (name: 'list' | 'add' | 'remove') => async (call: CommandCall) =>
  (await import('./agents/verbs.ts'))[name](call)

const AGENT = ['<agent>', 'its name'] as const

export const AGENTS: readonly Command[] = [
  {
    name: 'agents ls',
    summary: 'List the agents behind URLs.',
    settings: ['apiUrl'],
    run: verb('list'),
  },
  {
    name: 'agents add',
    summary: 'Add an agent behind a URL. The secret that signs its calls is shown now, and never again.',
    args: [AGENT, ['<where>', 'its URL: https://example.com/api/chat']],
    settings: ['apiUrl'],
    options: [
      ['--secret-file <path>', 'a file with the secret, whsec_…, if you have one (default: one is made)'],
      [
        '--downstream <key>',
        'what it shares a limit with: a key that the app has opened to agents (default: nothing)',
      ],
    ],
    run: verb('add'),
  },
  {
    name: 'agents rm',
    summary: 'Remove an agent. Its sessions stay, and fail to answer until it is added again.',
    args: [AGENT],
    settings: ['apiUrl'],
    run: verb('remove'),
  },
]
