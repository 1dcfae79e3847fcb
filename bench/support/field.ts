// A database of a contestant, and its processes.
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import type { Scope } from '../../packages/server/test/support/cleanup.ts'
import type { Cluster } from '../../packages/server/test/support/cluster.ts'
import { startContestant, type ContestantProcess } from './contestant-processes.ts'
import type { ContestantModule } from './contestant.ts'

export type Field = {
  start(count: number): Promise<ContestantProcess[]>
  untilEmpty(): Promise<void>
  /** Runs the same clean-up before each measurement, so that leftovers of one cost the next nothing. */
  tidy(): Promise<void>
  close(): Promise<void>
}

type Place = {
  readonly module: string
  readonly database: string
  /** Whether `tidy` runs vacuum and a checkpoint: a run that measures nothing skips them. */
  readonly isTidy: boolean
}

const PATIENCE_MS = 120_000 // after this, a process has died or a task is lost
const LOOK_MS = 20

export async function openField(
  scope: Scope,
  cluster: Cluster,
  { module, database, isTidy }: Place,
): Promise<Field> {
  const { prepare, UNFINISHED } = (await import(module)) as ContestantModule
  const url = cluster.urlOf(database)
  await cluster.admin(`create database ${database}`)
  await prepare(url)
  const client = new pg.Client(url) // one for all polls: opening a connection costs as much as some tasks
  await client.connect()
  return {
    start: (count) => Promise.all(Array.from({ length: count }, () => startContestant(scope, module, url))),
    untilEmpty: async () => {
      const deadlineMs = performance.now() + PATIENCE_MS
      const look = async () => (await client.query<{ unfinished: boolean }>(UNFINISHED)).rows[0]!.unfinished
      for (; await look(); await pause(LOOK_MS))
        if (performance.now() > deadlineMs) throw new Error(`Tasks of ${database} do not end`)
    },
    close: async () => {
      await client.end()
      await cluster.admin(`drop database ${database}`)
    },
    tidy: async () => {
      if (!isTidy) return
      await cluster.admin('vacuum analyze', database)
      await cluster.admin('checkpoint', database)
    },
  }
}

/** How many numbers did not run, and how many runs were repeats. */
export function missed(
  ran: readonly number[],
  count: number,
): { readonly lost: number; readonly duplicated: number } {
  const distinct = new Set(ran).size
  return { lost: count - distinct, duplicated: ran.length - distinct }
}
