// Tasks for a program that has the pod in its own process.
import type { Task } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Query } from '../store/database.ts'
import type { Enqueued } from '../task/enqueue.ts'
import type { TaskFilter, TaskPage } from '../task/list.ts'
import type { Machine } from '../task/machine.ts'
import type { Tasks, Wanted } from '../task/tasks.ts'

/** A client of `pg` on which the caller has opened a transaction. */
export type Transaction = {
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>
}
/** `result` is null until the task is done. */
export type TaskOf<Result> = Omit<Task, 'result'> & { readonly result: Result | null }
type Within = { readonly tx?: Transaction }

export type PodTasks = {
  /** Resolves after the commit. With `tx`, the task exists if that transaction commits, and no pod is woken. */
  enqueue<Raw>(wanted: Wanted<Raw>, within?: Within): Promise<Enqueued>
  /** Enqueues all of them or none. */
  enqueueAll<Raws extends readonly unknown[]>(
    wanted: readonly [...{ [N in keyof Raws]: Wanted<Raws[N]> }],
    within?: Within,
  ): Promise<Enqueued[]>
  findTask(id: string): Promise<Task | undefined>
  /** With the result typed as its machine declares it. A task of another machine is rejected. */
  findTask<Result>(id: string, machine: Machine<unknown, Result>): Promise<TaskOf<Result> | undefined>
  /** One page, newest first. */
  listTasks(filter?: TaskFilter): Promise<TaskPage>
  /** Makes a dead or held task ready, with all its attempts, at its current transition or at an earlier one (`from`).
   *  Undefined if there is no such task. A task in any other state is rejected. */
  retryTask(id: string, options?: { readonly from?: string }): Promise<Task | undefined>
}

type Deps = { readonly tasks: Tasks; readonly ownTenant: () => Promise<number> }

export function createPodTasks({ tasks, ownTenant }: Deps): PodTasks {
  const enqueueAll = async (wanted: readonly Wanted[], { tx }: Within = {}) => {
    const tenant = await ownTenant()
    return tx ? tasks.enqueueIn(queryOf(tx), tenant, wanted) : tasks.enqueueAll(tenant, wanted)
  }
  return {
    enqueue: async (wanted, { tx } = {}) => {
      if (tx) return (await enqueueAll([wanted], { tx }))[0]!
      return tasks.enqueue(await ownTenant(), wanted)
    },
    enqueueAll,
    findTask: async <Result>(id: string, machine?: Machine<unknown, Result>) => {
      const task = await tasks.find(await ownTenant(), id)
      if (task && machine && task.machine !== machine.name)
        throw new Rejected('conflict', `The task is of ${task.machine}, not of ${machine.name}`)
      return task as TaskOf<Result> | undefined // its schema has validated the result
    },
    listTasks: async (filter) => tasks.list(await ownTenant(), filter),
    retryTask: async (id, { from } = {}) => tasks.retry(await ownTenant(), id, from),
  }
}

function queryOf(tx: Transaction): Query {
  return async <Row>(text: string, values: readonly unknown[] = []) =>
    (await tx.query(text, [...values])).rows as Row[]
}
