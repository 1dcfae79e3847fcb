// fleetline inbox. Its code is loaded on demand, because other commands start in half the time without it.
import { INBOX_SHOWS, PAGE_LIMITS } from '@fleetline/protocol'
import type { Command } from './command.ts'

export const INBOX: Command = {
  name: 'inbox',
  summary:
    'List the sessions of a user. Shows for each how many messages are unread and what needs attention. --follow keeps printing changes.',
  settings: ['apiUrl', 'apiKey'],
  options: [
    ['--user <user>', 'whose inbox; needed with an API key, a token names its user'],
    ['--show <part>', `${INBOX_SHOWS.join(', ')} (default all: all that are not archived)`],
    ['--limit <number>', `the number of sessions, from 1 to ${PAGE_LIMITS.items} (default 50)`],
    ['--cursor <next>', 'where the page begins: the `next` that the page before ends with'],
    ['--follow', 'print the sessions, then each one again when it changes; Ctrl-C ends it'],
  ],
  run: async (call) => (await import('./inbox/list.ts')).inbox(call),
}
