// fleetline agents ls | add | set | check | rm | default. Their code is loaded on demand (`agents/verbs.ts`, `agents/check.ts`).
import type { CommandCall, Command } from './command.ts'
import { EXIT } from './output.ts'

const verb = (name: 'list' | 'add' | 'change' | 'remove' | 'useByDefault') => async (call: CommandCall) =>
  (await import('./agents/verbs.ts'))[name](call)

const AGENT = ['<agent>', 'the name of the agent'] as const
const PROTOCOL = ['--protocol <name>', 'the protocol of the agent: ai-sdk (the default) or ag-ui'] as const
const WINDOW = [
  [
    '--messages <number>',
    'send it at most this many messages of a conversation, the last ones (default 500)',
  ],
  ['--bytes <number>', 'and at most this many bytes of them (default 2097152)'],
] as const
const COMPACTION = [
  ['--compaction', 'ask the agent to summarise conversations that become long'],
  [
    '--token-budget <number>',
    'the size to keep a conversation at, in tokens, 1000 to 10000000 (default 50000)',
  ],
  [
    '--trigger-ratio <number>',
    'ask for a summary when this part of the budget is reached, 0.1 to 1 (default 0.7)',
  ],
  ['--summary-url <url>', 'ask for summaries at this URL (default: the URL of the agent)'],
] as const

export const AGENTS: readonly Command[] = [
  {
    name: 'agents ls',
    summary: 'List the agents behind URLs.',
    settings: ['apiUrl', 'apiKey'],
    run: verb('list'),
  },
  {
    name: 'agents add',
    summary: 'Add an agent behind a URL. The secret that signs its calls is shown only now.',
    args: [AGENT, ['<where>', 'the URL of the agent, for example https://example.com/api/chat']],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--secret-file <path>', 'a file with a secret (whsec_…) of your own (default: Fleetline creates one)'],
      [
        '--downstream <key>',
        'what it shares a limit with: a key that the app has opened to agents (default: nothing)',
      ],
      PROTOCOL,
      ...WINDOW,
      ...COMPACTION,
    ],
    run: verb('add'),
  },
  {
    name: 'agents set',
    summary: 'Change an agent behind a URL, from its next call on. What you do not name stays as it is.',
    args: [AGENT],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--to <url>', 'its new URL'],
      ['--secret-file <path>', 'a file with the secret (whsec_…) that signs its calls from now on'],
      ['--downstream <key>', 'what it shares a limit with'],
      ['--no-downstream', 'a limit of its own'],
      PROTOCOL,
      ...WINDOW,
      ...COMPACTION,
      ['--no-compaction', 'do not ask the agent for summaries'],
      ['--no-summary-url', 'ask for summaries at the URL of the agent'],
    ],
    run: verb('change'),
  },
  {
    name: 'agents check',
    summary: `Test an agent: call it as a pod would, with second attempts, broken connections and forged requests, and say what to fix. It needs no fleet. It calls the agent, and so its model, about a dozen times. Exits with ${EXIT.notClean} if a check fails.`,
    args: [['<url>', 'the URL of the agent, for example http://localhost:3000/']],
    settings: [],
    options: [
      [
        '--secret-file <path>',
        'a file with the secret (whsec_…) of the agent (default: .fleetline/agent-secret, which fleetline dev --agent creates)',
      ],
      PROTOCOL,
      ['--message <text>', 'what to say to it (default: a greeting, and a request for a long answer)'],
      ['--tool-message <text>', 'what to say to make it call a tool (default: no such message)'],
      ['--user <id>', 'the user who asks (default: none)'],
      ['--compact', 'also ask it to summarise a conversation'],
      [
        '--timeout <seconds>',
        'how long it may be silent, 1 to 600 (default: as on pods, 30 at first, then 60)',
      ],
    ],
    run: async (call) => (await import('./agents/check.ts')).check(call),
  },
  {
    name: 'agents rm',
    summary:
      'Remove an agent. Its sessions stay; their turns wait until it is added again, and fail after 15 minutes.',
    args: [AGENT],
    settings: ['apiUrl', 'apiKey'],
    run: verb('remove'),
  },
  {
    name: 'agents default',
    summary: 'Show the agent that answers in sessions which users create, or name another one.',
    args: [['[agent]', 'the name of the agent (default: show it)']],
    settings: ['apiUrl', 'apiKey'],
    options: [['--none', 'no agent: users cannot create sessions']],
    run: verb('useByDefault'),
  },
]
