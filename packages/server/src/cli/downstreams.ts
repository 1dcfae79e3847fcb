// fleetline downstreams ls. Its code is loaded on demand, because other commands start in half the time without it.
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const DOWNSTREAMS: readonly Command[] = [
  {
    name: 'downstreams ls',
    summary:
      'List the downstreams: the capacity of each as learnt so far, the share of each pod, and the calls in flight.',
    settings: ['operatorUrl', 'apiKey'],
    run: async ({ flags, output }) => {
      const [{ apiOf }, { downstreamsSchema }] = await Promise.all([
        import('./api.ts'),
        import('../admin/downstream-schemas.ts'),
      ])
      const api = apiOf({ flags, output }, 'operatorUrl')
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
