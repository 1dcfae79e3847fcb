// fleetline usage. Its code is loaded on demand, because other commands start in half the time without it.
import type { Command } from './command.ts'

export const USAGE: Command = {
  name: 'usage',
  summary: 'Show how many tokens agents have used, by day, agent, model or session.',
  settings: ['apiUrl', 'apiKey'],
  options: [
    ['--by <what>', 'what to sum by: day, agent, model or session (default day)'],
    ['--from <day>', 'the first day, such as 2026-01-31, in UTC (default 29 days before --to)'],
    ['--to <day>', 'the last day (default today)'],
    ['--agent <name>', 'only this agent'],
    ['--session <id>', 'only this session; takes its id, not its alias'],
    [
      '--limit <number>',
      'how many rows to return, 1 to 1000. With --by day the earliest days, otherwise the rows with the most input and output tokens (default 400)',
    ],
  ],
  run: async (call) => (await import('./usage/list.ts')).usage(call),
}
