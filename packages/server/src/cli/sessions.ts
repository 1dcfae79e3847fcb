// fleetline sessions create | ls | get | set | archive | unarchive | export | erase | send | read | stop | regenerate | edit | tail. Their code is loaded on demand, because other commands start in
// half the time without it.
import { PAGE_LIMITS } from '@fleetline/protocol'
import type { CommandCall, Command } from './command.ts'
import { CONFIRM } from './erasures.ts'

const verb =
  (
    name:
      | 'create'
      | 'list'
      | 'get'
      | 'set'
      | 'archive'
      | 'unarchive'
      | 'erase'
      | 'read'
      | 'stop'
      | 'regenerate'
      | 'edit',
  ) =>
  async (call: CommandCall) =>
    (await import('./sessions/verbs.ts'))[name](call)

const SESSION = ['<session>', 'the id or the alias of the session'] as const

export const SESSIONS: readonly Command[] = [
  {
    name: 'sessions create',
    summary: 'Create a session.',
    settings: ['apiUrl', 'apiKey'],
    options: [
      [
        '--alias <alias>',
        'a name to use instead of the id; if a session with this alias and agent exists, it is shown',
      ],
      ['--title <title>', 'a title for people'],
      ['--metadata <json>', 'a JSON object that belongs to the application'],
      ['--agent <agent>', 'the agent that replies (default: none, the session is a plain log)'],
    ],
    run: verb('create'),
  },
  {
    name: 'sessions ls',
    summary: 'List sessions, the newest first.',
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--before <session>', 'only sessions created before this one'],
      ['--limit <number>', `the number of sessions, from 1 to ${PAGE_LIMITS.items} (default 50)`],
    ],
    run: verb('list'),
  },
  {
    name: 'sessions get',
    summary: 'Show a session.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    run: verb('get'),
  },
  {
    name: 'sessions set',
    summary: 'Change the title or the metadata of a session. What you leave out stays.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--title <title>', 'a title for people'],
      ['--no-title', 'remove the title'],
      ['--metadata <json>', 'a JSON object that belongs to the application'],
      ['--no-metadata', 'remove the metadata'],
    ],
    run: verb('set'),
  },
  {
    name: 'sessions archive',
    summary: 'Archive a session for all its members. A message that is sent un-archives it.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    run: verb('archive'),
  },
  {
    name: 'sessions unarchive',
    summary: 'Move a session out of the archive, for all its members.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    run: verb('unarchive'),
  },
  {
    name: 'sessions export',
    summary: 'Print a session and all its messages, as one JSON object per line.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    run: async (call) => (await import('./sessions/export.ts')).exportSession(call),
  },
  {
    name: 'sessions erase',
    summary:
      'Erase a session with all its messages, or one message. It cannot be undone. An erased session has no alias: another session may take it, so use the id when you repeat the command.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    options: [['--message <id>', 'only the message with this id'], CONFIRM],
    run: verb('erase'),
  },
  {
    name: 'sessions send',
    summary:
      'Append a message. If the session has an agent, print its reply as it comes; Ctrl-C stops the reply.',
    args: [SESSION, ['<text>', 'the text of the message']],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--author <user>', 'the author of the message'],
      [
        '--id <id>',
        'the id of the message; a message that is sent twice with one id is stored once (default: a new id)',
      ],
      ['--if-head <seq>', 'append only if this is the last seq'],
      ['--no-reply', 'the agent does not reply to this message'],
      ['--no-wait', 'end as soon as the message is stored; the agent still replies'],
    ],
    run: async (call) => (await import('./sessions/send.ts')).send(call),
  },
  {
    name: 'sessions read',
    summary:
      'Mark the messages of a session as read for a user. What the user has read never becomes unread again.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--seq <seq>', 'the last seq that the user has read (default: the last one that is stored)'],
      ['--user <user>', 'the user; needed with an API key, a token names its user'],
    ],
    run: verb('read'),
  },
  {
    name: 'sessions stop',
    summary: 'Stop the running reply, on whichever pod it runs. What the agent has said so far is kept.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    run: verb('stop'),
  },
  {
    name: 'sessions regenerate',
    summary:
      'Let the agent write a reply again. The old one stays in the log; a running reply is discarded. Each run of this command regenerates again.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    options: [
      [
        '--message <id>',
        'the reply, or the message of a user whose reply is regenerated (default: the live reply; otherwise the last reply, or the last message that asks for one, whichever is later)',
      ],
    ],
    run: verb('regenerate'),
  },
  {
    name: 'sessions edit',
    summary:
      'Replace a message of a user. That message and all messages after it, except replies to earlier messages, are no longer part of the conversation, but stay in the log. The agent answers the new message.',
    args: [SESSION, ['<message>', 'the id of the message'], ['<text>', 'the new text']],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--id <id>', 'the id of the new message (default: a new id)'],
      ['--author <user>', 'the author of the new message'],
    ],
    run: verb('edit'),
  },
  {
    name: 'sessions tail',
    summary: 'Follow a session: print its messages, then new ones as they come. Ctrl-C ends it.',
    args: [SESSION],
    settings: ['apiUrl', 'apiKey'],
    options: [['--after <seq>', 'begin after this seq (default 0: at the first message)']],
    run: async (call) => (await import('./sessions/tail.ts')).tail(call),
  },
]
