// fleetline pods ls. Its code is loaded on demand, because other commands start in half the time without it.
import { loadConfig } from '../config.ts'
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const PODS: readonly Command[] = [
  {
    name: 'pods ls',
    summary: 'List the pods: those that live, then the dead of the last hour.',
    settings: ['operatorUrl'],
    run: async ({ flags, output }) => {
      const { operatorUrl } = loadConfig({ flags })
      const [{ createApi }, { podsSchema }, { systemClock }] = await Promise.all([
        import('./api.ts'),
        import('../admin/pod-schemas.ts'),
        import('../lib/clock.ts'),
      ])
      const api = createApi(operatorUrl, systemClock())
      const { pods } = await api.ask({ method: 'GET', path: '/pods', answer: podsSchema })
      output.list(['pod', 'name', 'state', 'isLeader', 'beatAgeMs', 'bornAt', 'version'], pods)
      return EXIT.done
    },
  },
]
