// fleetline tasks ls | get | enqueue | retry. Their code is loaded on demand, because other commands start in half the time
// without it.
import { PAGE_LIMITS, TASK_STATES } from '@fleetline/protocol'
import type { CommandCall, Command } from './command.ts'

const verb = (name: 'list' | 'get' | 'enqueue' | 'retry') => async (call: CommandCall) =>
  (await import('./tasks/verbs.ts'))[name](call)

const TASK = ['<task>', 'the id of the task'] as const

export const TASKS: readonly Command[] = [
  {
    name: 'tasks ls',
    summary: 'List live and ended tasks, the newest first.',
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--state <state>', `only tasks in this state: ${TASK_STATES.join(', ')}`],
      ['--queue <queue>', 'only tasks of this queue'],
      ['--machine <machine>', 'only tasks of this machine'],
      ['--before <task>', 'only tasks created before this one'],
      ['--limit <number>', `the number of tasks, from 1 to ${PAGE_LIMITS.items} (default 50)`],
    ],
    run: verb('list'),
  },
  {
    name: 'tasks get',
    summary: 'Show a task: its input, its result, its last errors, and every transition of its machine.',
    args: [TASK],
    settings: ['apiUrl', 'apiKey'],
    run: verb('get'),
  },
  {
    name: 'tasks enqueue',
    summary: 'Enqueue a task. When the command ends, the task is stored.',
    args: [
      ['<machine>', 'the name of the task or machine to run'],
      ['[input]', 'its input, as JSON (default null)'],
    ],
    settings: ['apiUrl', 'apiKey'],
    options: [
      ['--queue <queue>', 'the queue of that machine (default: default)'],
      ['--priority <number>', '7 goes first, 0 last (default: that of the machine, or 3)'],
      ['--run-at <time>', 'do not start before this time, for example 2026-12-24T18:00:00Z'],
      ['--max-attempts <number>', 'how many attempts it has (default: that of the machine)'],
      [
        '--id <id>',
        'tsk_0000 and a UUIDv7 without dashes: enqueued twice under one id, a task is there once (default: a new one)',
      ],
    ],
    run: verb('enqueue'),
  },
  {
    name: 'tasks retry',
    summary: 'Retry a dead or held task, with all its attempts.',
    args: [TASK],
    settings: ['apiUrl', 'apiKey'],
    options: [
      [
        '--from <transition>',
        'go on from here: what is recorded from there on is forgotten (default: where it stands)',
      ],
    ],
    run: verb('retry'),
  },
]
