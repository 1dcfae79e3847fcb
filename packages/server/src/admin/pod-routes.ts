// Routes for pods: list them, take one out of work, and back.
import { route, type Route } from '../door/route.ts'
import { actorOf } from '../identity/actor.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { PODS_WRITE, READ } from './access.ts'
import type { Drains } from './drains.ts'
import { drainPlanSchema, drainSchema, podOf, podParams, podsSchema } from './pod-schemas.ts'

type Deps = { readonly fleet: Pick<Fleet, 'pods'>; readonly drains: Drains }

export function podRoutes({ fleet, drains }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/pods',
      summary:
        'Lists the pods: live ones first, the oldest at the top, then those that died in the last hour.',
      access: READ,
      answers: { 200: { means: 'At most 1000 pods.', json: podsSchema } },
      handle: async () => ({ status: 200, body: { pods: (await fleet.pods()).map(podOf) } }),
    }),
    route({
      method: 'POST',
      path: '/v1/pods/:pod/drain',
      summary:
        "Takes a pod out of work: it becomes unready and claims nothing, its clients move to other pods, and its running work gets `drainMs` to finish. Its process stays alive. The drain begins with the pod's next beat.",
      access: PODS_WRITE,
      params: podParams,
      body: drainSchema,
      answers: {
        200: {
          means: 'What moves, and how long it takes at most. With `dryRun`, nothing was changed.',
          json: drainPlanSchema,
        },
      },
      handle: async ({ principal, address, params: { pod }, body: { dryRun } }) => ({
        status: 200,
        body: dryRun ? await drains.plan(pod) : await drains.ask(pod, true, actorOf(principal, address)),
      }),
    }),
    route({
      method: 'POST',
      path: '/v1/pods/:pod/undrain',
      summary: 'Lets a pod that was drained work again.',
      access: PODS_WRITE,
      params: podParams,
      answers: { 200: { means: 'The clients and the work that the pod has now.', json: drainPlanSchema } },
      handle: async ({ principal, address, params: { pod } }) => ({
        status: 200,
        body: await drains.ask(pod, false, actorOf(principal, address)),
      }),
    }),
  ]
}
