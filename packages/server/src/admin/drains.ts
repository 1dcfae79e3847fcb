// Asks a pod to drain by writing into its row, which that pod reads with its next beat. So an operator can ask any pod to drain any
// other, although pods reach each other only through PostgreSQL.
import { Rejected } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Audit } from '../identity/audit.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'

/** What a drain of the pod moves, and how long it takes at most. */
export type DrainPlan = {
  readonly pod: number
  readonly name: string
  readonly state: 'live' | 'draining'
  /** An operator has asked it to drain. If false, a draining pod is stopping, or an operator has just undrained it. */
  readonly isAsked: boolean
  /** How many other pods are live, and not asked to drain. */
  readonly others: number
  /** Clients that are connected, as of its last beat. */
  readonly sockets: number
  readonly streams: number
  /** What it runs now. */
  readonly turns: number
  readonly tasks: number
  readonly endsWithinMs: number
}
export type Drains = {
  /** Throws if no live pod has this number or name, or several have this name. */
  plan(pod: string): Promise<DrainPlan>
  /** Asks it to drain, or takes that back. Resolves to the plan as it was before. */
  ask(pod: string, isAsked: boolean, actor: Actor): Promise<DrainPlan>
}
type Deps = { readonly database: Transactions; readonly audit: Pick<Audit, 'record'> }

// The claims of the pod come from the partial index of claimed tasks.
const PLAN = `
  select p.id as pod, p.name, p.state, p.drain_asked as "isAsked", p.sockets, p.streams, c.turns, c.tasks, p.drain_ms as "endsWithinMs",
         (select count(*)::int from fleetline.pods o where o.id <> p.id and o.state = 'live' and not o.drain_asked) as others
    from fleetline.pods p
   cross join lateral (
     select count(*) filter (where k.machine = 'turn')::int as turns, count(*) filter (where k.machine <> 'turn')::int as tasks
       from fleetline.tasks t join fleetline.tracks k on k.id = t.track
      where t.pod = p.id and t.state = 'claimed') c
   where p.state <> 'dead' and (p.id::text = $1 or p.name = $1)
   order by p.id limit 2`
/** Locks the row, so that two operators take turns, and the pod is not marked as dead meanwhile. */
const LOCKED_PLAN = `${PLAN} for update of p`
const ASK = `update fleetline.pods set drain_asked = $2 where id = $1`

export function createDrains({ database, audit }: Deps): Drains {
  return {
    plan: async (pod) =>
      valueOf(
        await database.transaction((query) => planIn(query, PLAN, pod), { access: 'read' }),
        'No plan was read',
      ),
    ask: async (pod, isAsked, actor) => {
      const outcome = await database.transaction(async (query) => {
        const plan = await planIn(query, LOCKED_PLAN, pod)
        if (plan.isAsked === isAsked) return plan
        await query(ASK, [plan.pod, isAsked])
        const action = isAsked ? 'pod.drain' : 'pod.undrain'
        await audit.record(query, { actor, action, tenant: null, target: `${plan.name} (${plan.pod})` })
        return plan
      })
      return valueOf(outcome, 'Whether the pod was asked is not known: ask again')
    },
  }
}

async function planIn(query: Query, text: string, named: string): Promise<DrainPlan> {
  const [plan, other] = await query<DrainPlan>(text, [named])
  if (!plan)
    throw new Rejected('not_found', `No live pod has the number or the name ${named}: see fleetline pods ls`)
  if (other)
    throw new Rejected(
      'conflict',
      `Several live pods are named ${named}: give the number, see fleetline pods ls`,
    )
  if (plan.endsWithinMs === 0)
    throw new Rejected('conflict', `The release of pod ${named} does not know drains: stop the pod instead`)
  return plan
}
