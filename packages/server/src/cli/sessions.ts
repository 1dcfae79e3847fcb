// fleetline sessions create | ls | get | send | stop | tail. Their code is loaded on demand, because other commands start in
// half the time without it.
import { PAGE_LIMITS } from '@fleetline/protocol'
import type { CommandCall, Command } from './command.ts'

const verb = (name: 'create' | 'list' | 'get' | 'stop') => async (call: CommandCall) =>
  (await import('./sessions/verbs.ts'))[name](call)

const SESSION = ['<session>', 'its id or alias'] as const

export const SESSIONS: readonly Command[] = [
  {
    name: 'sessions create',
    summary: 'Make a session.',
    settings: ['apiUrl'],
    options: [
      ['--alias <alias>', 'what stands for its id; a session of this agent that has it already is shown'],
      ['--title <title>', 'what people call it'],
      ['--agent <agent>', 'who answers in it (default: nobody, it is a plain log)'],
    ],
    run: verb('create'),
  },
  {
    name: 'sessions ls',
    summary: 'List sessions, the newest first.',
    settings: ['apiUrl'],
    options: [
      ['--before <session>', 'only those made before this one'],
      ['--limit <number>', `at most so many, from 1 to ${PAGE_LIMITS.items} (default 50)`],
    ],
    run: verb('list'),
  },
  {
    name: 'sessions get',
    summary: 'Show a session.',
    args: [SESSION],
    settings: ['apiUrl'],
    run: verb('get'),
  },
  {
    name: 'sessions send',
    summary:
      'Append a message, and print the reply while it comes, if an agent answers in the session. Ctrl-C stops the reply.',
    args: [SESSION, ['<text>', 'what it says']],
    settings: ['apiUrl'],
    options: [
      ['--author <user>', 'who says it'],
      ['--id <id>', 'of the message: sent twice under one id, it is there once (default: a new one)'],
      ['--if-head <seq>', 'only if this is the last seq'],
      ['--no-reply', 'the agent of the session does not answer it'],
      ['--no-wait', 'the agent answers; this ends when the message is stored'],
    ],
    run: async (call) => (await import('./sessions/send.ts')).send(call),
  },
  {
    name: 'sessions stop',
    summary: 'Stop the reply that is on its way, wherever it runs: what it has said so far is kept.',
    args: [SESSION],
    settings: ['apiUrl'],
    run: verb('stop'),
  },
  {
    name: 'sessions tail',
    summary: 'Follow a session: what is stored, then what comes. Ctrl-C stops it.',
    args: [SESSION],
    settings: ['apiUrl'],
    options: [['--after <seq>', 'begin behind this seq (default 0, at the first message)']],
    run: async (call) => (await import('./sessions/tail.ts')).tail(call),
  },
]
