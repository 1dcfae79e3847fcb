// One process of a contestant. It carries out the orders that its parent sends over a channel, one at a time.
import { flushCompileCache } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import type { Aim, Contestant, ContestantModule } from './contestant.ts'
import { nowMs } from './now.ts'
import { obey } from './orders.ts'

export type Orders = {
  enqueueAll(from: number, count: number): { ms: number }
  /** For `ms`, callers enqueue tasks, each with one under way. */
  enqueueSingly(from: number, callers: number, ms: number): { count: number; ms: number }
  /** Enqueues at a steady pace, without waiting for earlier answers. */
  enqueueSteadily(from: number, count: number, perSecond: number): { startedMs: number[] }
  work(aim: Aim): void
  /** Returns the tasks that have run since `work`, and when. */
  stop(): { ran: number[]; atMs: number[] }
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, index) => from + index)

const [path = '', url = ''] = process.argv.slice(2)
const { open } = (await import(path)) as ContestantModule
const contestant: Contestant = await open(url)
flushCompileCache() // Node saves it only on a normal exit, and this process is killed; the next one starts faster
const [ran, atMs] = [[] as number[], [] as number[]]
let stopWork: () => Promise<void> = async () => undefined

obey<Orders>({
  enqueueAll: async (from, count) => {
    const startMs = nowMs()
    await contestant.enqueueAll(range(from, count))
    return { ms: nowMs() - startMs }
  },
  enqueueSingly: async (from, callers, ms) => {
    const startMs = nowMs()
    let count = 0
    const call = async () => {
      while (nowMs() - startMs < ms) await contestant.enqueue(from + count++)
    }
    await Promise.all(range(0, callers).map(call))
    return { count, ms: nowMs() - startMs }
  },
  enqueueSteadily: async (from, count, perSecond) => {
    const calls = range(0, count).map(async (index) => {
      await pause((index * 1_000) / perSecond)
      const startedMs = nowMs()
      await contestant.enqueue(from + index)
      return startedMs
    })
    return { startedMs: await Promise.all(calls) }
  },
  work: async (aim) => {
    const run = (number: number) => {
      ran.push(number)
      atMs.push(nowMs())
    }
    stopWork = await contestant.work(run, aim)
  },
  stop: async () => {
    await stopWork()
    await contestant.close()
    return { ran, atMs }
  },
})
