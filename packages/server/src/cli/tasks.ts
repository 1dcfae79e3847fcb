// fleetline tasks ls | get | enqueue | retry. Their code is loaded on demand, because other commands start in half the time
// without it.
import { PAGE_LIMITS, TASK_STATES } from '@fleetline/protocol'
import type { CommandCall, Command } from './command.ts'

const verb = (name: 'list' | 'get' | 'enqueue' | 'retry') => async (call: CommandCall) =>
  (await import('./tasks/verbs.ts'))[name](call)

const TASK = ['<task>', 'its id'] as const

export const TASKS: readonly Command[] = [
  {
    name: 'tasks ls',
    summary: 'List tasks that live and tasks that ended, the newest first.',
    settings: ['apiUrl'],
    options: [
      ['--state <state>', `only those that are ${TASK_STATES.join(', ')}`],
      ['--queue <queue>', 'only those of a queue'],
      ['--machine <machine>', 'only those of a machine'],
      ['--before <task>', 'only those made before this one'],
      ['--limit <number>', `at most so many, from 1 to ${PAGE_LIMITS.items} (default 50)`],
    ],
    run: verb('list'),
  },
  {
    name: 'tasks get',
    summary: 'Show a task: its input, its result, its last errors, its way through its machine.',
    args: [TASK],
    settings: ['apiUrl'],
    run: verb('get'),
  },
  {
    name: 'tasks enqueue',
    summary: 'Enqueue a task. It is stored when this answers.',
    args: [
      ['<machine>', 'what is to run'],
      ['[input]', 'its input, as JSON (default null)'],
    ],
    settings: ['apiUrl'],
    options: [
      ['--queue <queue>', 'where that machine stands (default default)'],
      ['--priority <number>', '7 first, 0 last (default: that of the machine, or 3)'],
      ['--run-at <time>', 'not before this, as 2026-12-24T18:00:00Z'],
      ['--max-attempts <number>', 'how often it is tried (default: that of the machine)'],
      [
        '--id <id>',
        'tsk_0000 and a UUIDv7 without dashes: enqueued twice under one id, a task is there once (default: a new one)',
      ],
    ],
    run: verb('enqueue'),
  },
  {
    name: 'tasks retry',
    summary: 'Make a task ready again that is dead or held, with all its attempts.',
    args: [TASK],
    settings: ['apiUrl'],
    options: [
      [
        '--from <transition>',
        'go on from here: what is recorded from there on is forgotten (default: where it stands)',
      ],
    ],
    run: verb('retry'),
  },
]
