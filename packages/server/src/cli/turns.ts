// fleetline turns get. Its code is loaded on demand, because other commands start in half the time without it.
import type { Command } from './command.ts'

export const TURNS: readonly Command[] = [
  {
    name: 'turns get',
    summary: 'Show a turn: its state, the pod that runs it, and how it ended.',
    args: [['<turn>', 'the id of the turn']],
    settings: ['apiUrl', 'apiKey'],
    run: async (call) => (await import('./turns/verbs.ts')).get(call),
  },
]
