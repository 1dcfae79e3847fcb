// fleetline downstreams ls. Its code is loaded on demand, because other commands start in half the time without it.
import { loadConfig } from '../config.ts'
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const DOWNSTREAMS: readonly Command[] = [
  {
    name: 'downstreams ls',
    summary:
      'List what pods call under permits: how much it takes, who has which share of it, and what is in flight.',
    settings: ['operatorUrl'],
    run: async ({ flags, output }) => {
      const { operatorUrl } = loadConfig({ flags })
      const [{ createApi }, { downstreamsSchema }, { systemClock }] = await Promise.all([
        import('./api.ts'),
        import('../admin/downstream-schemas.ts'),
        import('../lib/clock.ts'),
      ])
      const api = createApi(operatorUrl, systemClock())
      const { downstreams } = await api.ask({
        method: 'GET',
        path: '/downstreams',
        answer: downstreamsSchema,
      })
      const rows = downstreams.map(({ pods, ...downstream }) => ({
        ...downstream,
        pods: pods.length,
        shares: pods.map(({ pod, share }) => `${pod}:${share ?? '-'}`).join(),
      }))
      output.list(COLUMNS, rows)
      return EXIT.done
    },
  },
]
const COLUMNS = ['key', 'capacity', 'inFlight', 'want', 'pods', 'shares', 'pausedUntil', 'ageMs']
