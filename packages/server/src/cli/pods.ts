// fleetline pods ls. Its code is loaded on demand, because other commands start in half the time without it.
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const PODS: readonly Command[] = [
  {
    name: 'pods ls',
    summary: 'List the pods: live ones, then those that died in the last hour.',
    settings: ['operatorUrl', 'apiKey'],
    run: async ({ flags, output }) => {
      const [{ apiOf }, { podsSchema }] = await Promise.all([
        import('./api.ts'),
        import('../admin/pod-schemas.ts'),
      ])
      const api = apiOf({ flags, output }, 'operatorUrl')
      const { pods } = await api.ask({ method: 'GET', path: '/pods', answer: podsSchema })
      output.list(['pod', 'name', 'state', 'isLeader', 'beatAgeMs', 'bornAt', 'version'], pods)
      return EXIT.done
    },
  },
]
