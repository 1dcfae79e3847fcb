// fleetline pods ls | drain | undrain. Their code is loaded on demand, because other commands start in half the time without it.
import type { Command, CommandCall } from './command.ts'
import { EXIT } from './output.ts'

const POD = ['<pod>', 'its number or its name, see pods ls'] as const
const COLUMNS = ['pod', 'name', 'state', 'isLeader', 'sockets', 'streams', 'beatAgeMs', 'bornAt', 'version']

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
      output.list(COLUMNS, pods)
      return EXIT.done
    },
  },
  {
    name: 'pods drain',
    summary:
      'Take a pod out of work: its clients move to other pods, and its tasks and turns may end. The pod stays alive. Stop it then, or undrain it.',
    args: [POD],
    settings: ['operatorUrl', 'apiKey'],
    options: [['--dry-run', 'only show what would move, and how long it would take at most']],
    run: (call) => ask(call, 'drain', { dryRun: call.options['dryRun'] === true }),
  },
  {
    name: 'pods undrain',
    summary: 'Let a pod that was drained work again.',
    args: [POD],
    settings: ['operatorUrl', 'apiKey'],
    run: (call) => ask(call, 'undrain'),
  },
]

async function ask(
  { flags, args: [pod = ''], output }: CommandCall,
  act: 'drain' | 'undrain',
  body?: object,
): Promise<number> {
  const [{ apiOf }, { drainPlanSchema }] = await Promise.all([
    import('./api.ts'),
    import('../admin/pod-schemas.ts'),
  ])
  const path = `/pods/${encodeURIComponent(pod)}/${act}`
  const api = apiOf({ flags, output }, 'operatorUrl')
  output.one(await api.ask({ method: 'POST', path, answer: drainPlanSchema, ...(body && { body }) }))
  return EXIT.done
}
