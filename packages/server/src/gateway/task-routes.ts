// Routes for tasks. A task of another tenant gets the same answer as one that does not exist: identical bytes, except for the
// request id. Every such answer comes from `found`.
import type { Task } from '@fleetline/protocol'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Tasks } from '../task/tasks.ts'
import { CALLER_ACCESS, type TenantOf } from './caller.ts'
import {
  enqueuedSchema,
  newTaskSchema,
  retryQuery,
  taskParams,
  taskSchema,
  tasksQuery,
  tasksSchema,
} from './task-schemas.ts'

type Deps = {
  readonly tenantOf: TenantOf
  readonly tasks: Pick<Tasks, 'enqueue' | 'find' | 'list' | 'retry'>
}

export function taskRoutes(deps: Deps): Route[] {
  return [enqueueRoute(deps), ...readRoutes(deps), retryRoute(deps)]
}

function enqueueRoute({ tenantOf, tasks }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/tasks',
    summary:
      'Enqueues a task for a machine that a pod has run. Sent again with the same id, it is there once.',
    access: CALLER_ACCESS,
    body: newTaskSchema,
    answers: { 200: { means: 'Committed.', json: enqueuedSchema } },
    handle: async ({ principal, body: { runAt, ...rest } }) => {
      const wanted = { ...rest, runAt: runAt === undefined ? undefined : new Date(runAt) }
      return { status: 200, body: await tasks.enqueue(await tenantOf(principal), wanted) }
    },
  })
}

function readRoutes({ tenantOf, tasks }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/tasks',
      summary:
        'Tasks that live and tasks that ended, the newest first: those made before the task `before`, or the last ones made; only those of a `state`, `queue`, `machine`. What they carry is not in the list. A page may be short or empty although more tasks match: then `next` is set.',
      access: CALLER_ACCESS,
      query: tasksQuery,
      answers: { 200: { means: 'At most `limit` tasks, and `next`.', json: tasksSchema } },
      handle: async ({ principal, query }) => {
        return { status: 200, body: await tasks.list(await tenantOf(principal), query) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/tasks/:task',
      summary:
        'One task, with its input, its result, its last errors, and its way through its machine: every transition with its state, and what was recorded.',
      access: CALLER_ACCESS,
      params: taskParams,
      answers: { 200: { means: 'It is here.', json: taskSchema } },
      handle: async ({ principal, params }) => {
        return { status: 200, body: found(await tasks.find(await tenantOf(principal), params.task)) }
      },
    }),
  ]
}

function retryRoute({ tenantOf, tasks }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/tasks/:task/retry',
    summary:
      'Makes a task ready again that is dead or held, with all its attempts: where it stands, or `from` a transition before. In any other state it is a conflict.',
    access: CALLER_ACCESS,
    params: taskParams,
    query: retryQuery,
    answers: { 200: { means: 'It is ready, or on its way.', json: taskSchema } },
    handle: async ({ principal, params, query }) => {
      const tenant = await tenantOf(principal)
      return { status: 200, body: found(await tasks.retry(tenant, params.task, query.from)) }
    },
  })
}

function found(task: Task | undefined): Task {
  if (!task) throw new Rejected('not_found', 'There is no such task, or it is not yours.')
  return task
}
