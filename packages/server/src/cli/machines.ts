// fleetline machines ls. Its code is loaded on demand, because other commands start in half the time without it.
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const MACHINES: readonly Command[] = [
  {
    name: 'machines ls',
    summary: 'List the machines: how many tasks are at each transition, and how old the oldest is.',
    settings: ['operatorUrl', 'apiKey'],
    run: async ({ flags, output }) => {
      const [{ apiOf }, { machinesSchema }] = await Promise.all([
        import('./api.ts'),
        import('../admin/machine-schemas.ts'),
      ])
      const api = apiOf({ flags, output }, 'operatorUrl')
      const { machines } = await api.ask({ method: 'GET', path: '/machines', answer: machinesSchema })
      const rows = machines.flatMap(({ transitions, ...machine }) =>
        transitions.map(({ name, reasons, ...counts }) => ({
          ...machine,
          transition: name,
          ...counts,
          reasons: reasons.join(),
        })),
      )
      output.list(COLUMNS, rows)
      return EXIT.done
    },
  },
]
const COLUMNS = [
  'queue',
  'machine',
  'shape',
  'pods',
  'transition',
  'ready',
  'waiting',
  'claimed',
  'held',
  'reasons',
  'dead',
  'oldestMs',
  'estimated',
]
