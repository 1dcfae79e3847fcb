// Routes for tasks. A task of another tenant gets the same answer as one that does not exist: identical bytes, except for the
// request id. Every such answer comes from `found`.
import type { Task } from '@fleetline/protocol'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Tasks } from '../task/tasks.ts'
import { accessWith, tenantOf } from './caller.ts'
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
  readonly tasks: Pick<Tasks, 'enqueue' | 'find' | 'list' | 'retry'>
}

export function taskRoutes(deps: Deps): Route[] {
  return [enqueueRoute(deps), ...readRoutes(deps), retryRoute(deps)]
}

function enqueueRoute({ tasks }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/tasks',
    summary:
      'Enqueues a task for a machine that some pod has registered. A task that is sent again with the same id is stored once.',
    access: accessWith('tasks:write'),
    body: newTaskSchema,
    answers: { 200: { means: 'Committed.', json: enqueuedSchema } },
    handle: async ({ principal, body: { runAt, ...rest } }) => {
      const wanted = { ...rest, runAt: runAt === undefined ? undefined : new Date(runAt) }
      return { status: 200, body: await tasks.enqueue(tenantOf(principal), wanted) }
    },
  })
}

function readRoutes({ tasks }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/tasks',
      summary:
        'Lists live and ended tasks, the newest first; with `before`, those created before that task. Filter by `state`, `queue` and `machine`. Inputs and results are not in the list. A page may be short or empty although more tasks match: then `next` is set.',
      access: accessWith('tasks:read'),
      query: tasksQuery,
      answers: { 200: { means: 'At most `limit` tasks, and `next`.', json: tasksSchema } },
      handle: async ({ principal, query }) => {
        return { status: 200, body: await tasks.list(tenantOf(principal), query) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/tasks/:task',
      summary:
        'Shows a task: its input, its result, its last errors, and every transition of its machine with its state and its output.',
      access: accessWith('tasks:read'),
      params: taskParams,
      answers: { 200: { means: 'The task.', json: taskSchema } },
      handle: async ({ principal, params }) => {
        return { status: 200, body: found(await tasks.find(tenantOf(principal), params.task)) }
      },
    }),
  ]
}

function retryRoute({ tasks }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/tasks/:task/retry',
    summary:
      'Retries a dead or held task, with all its attempts: where it stopped, or `from` an earlier transition. A task in any other state is a conflict.',
    access: accessWith('tasks:write'),
    params: taskParams,
    query: retryQuery,
    answers: { 200: { means: 'The task is ready, or runs already.', json: taskSchema } },
    handle: async ({ principal, params, query }) => {
      const tenant = tenantOf(principal)
      return { status: 200, body: found(await tasks.retry(tenant, params.task, query.from)) }
    },
  })
}

function found(task: Task | undefined): Task {
  if (!task) throw new Rejected('not_found', 'There is no such task, or it is not yours.')
  return task
}
