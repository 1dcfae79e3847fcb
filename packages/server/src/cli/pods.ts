// fleetline pods ls | drain | undrain. Their code is loaded on demand, because other commands start in half the time without it.
import type { z } from 'zod'
import type { drainPlanSchema } from '../admin/pod-schemas.ts'
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
      'Take a pod out of work: its clients move to other pods, and its running work gets FLEETLINE_DRAIN_MS to finish. The process stays alive: stop it afterwards, or undrain it.',
    args: [POD],
    settings: ['operatorUrl', 'apiKey'],
    options: [['--dry-run', 'only show what would move, and how long it would take at most']],
    run: drain,
  },
  {
    name: 'pods undrain',
    summary: 'Let a pod that was drained work again.',
    args: [POD],
    settings: ['operatorUrl', 'apiKey'],
    run: undrain,
  },
]

/** What a drain moves, as it was before the request. */
type Asked = z.infer<typeof drainPlanSchema>

async function drain(call: CommandCall): Promise<number> {
  const { output, options } = call
  const dryRun = options['dryRun'] === true
  const plan = await ask(call, 'drain', { dryRun })
  if (dryRun) output.one(plan)
  else output.next([drainText(plan)], plan)
  if (plan.others === 0)
    output.note(
      `No other pod takes work. While ${plan.name} drains, no new work starts until you undrain a pod or start another.`,
    )
  return EXIT.done
}

async function undrain(call: CommandCall): Promise<number> {
  const plan = await ask(call, 'undrain')
  call.output.next([undrainText(plan)], plan)
  return EXIT.done
}

async function ask(
  { flags, args: [pod = ''], output }: CommandCall,
  act: 'drain' | 'undrain',
  body?: object,
): Promise<Asked> {
  const [{ apiOf }, { drainPlanSchema }] = await Promise.all([
    import('./api.ts'),
    import('../admin/pod-schemas.ts'),
  ])
  const path = `/pods/${encodeURIComponent(pod)}/${act}`
  const api = apiOf({ flags, output }, 'operatorUrl')
  return api.ask({ method: 'POST', path, answer: drainPlanSchema, ...(body && { body }) })
}

function drainText({ name, state, turns, tasks, sockets, streams, endsWithinMs }: Asked): string {
  const work = [clause(turns, 'turn', 'run'), clause(tasks, 'task', 'run')]
  const clauses = [...work, clause(sockets + streams, 'client', 'move')].filter((text) => text !== '')
  const moves = clauses.join(', ')
  if (state === 'draining')
    return moves === ''
      ? `${name} drains: no task or turn runs, and no client was connected at its last beat.`
      : `${name} drains already: ${moves}.`
  const mostS = Math.ceil(endsWithinMs / 1_000)
  return `${name} begins to drain: ${moves || 'nothing runs'}. The drain should end within ${mostS} s.`
}

/** `1 turn runs`, `2 turns run`; empty for 0. */
function clause(count: number, noun: string, verb: string): string {
  if (count === 0) return ''
  return count === 1 ? `1 ${noun} ${verb}s` : `${count} ${noun}s ${verb}`
}

/** The row of a pod does not say that it stops. But if it drains and nobody has asked for that, it stops, or it was undrained just now. */
function undrainText({ name, state, isAsked }: Asked): string {
  if (isAsked) return `${name} takes work again soon, unless its process stops.`
  if (state === 'live') return `${name} takes work: it was not drained.`
  return `${name} still drains, although no operator asks for that. Either it was just undrained and takes work again soon, or its process is stopping. Undrain does not prevent a stop.`
}
