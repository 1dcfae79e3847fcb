// Processes of a contestant, seen from the bench.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { atEnd, type Scope } from '../../packages/server/test/support/cleanup.ts'
import type { Orders } from './contestant-process.ts'

export type ContestantProcess = {
  order<Name extends keyof Orders>(
    order: Name,
    ...args: Parameters<Orders[Name]>
  ): Promise<ReturnType<Orders[Name]>>
  /** Ends the process. */
  end(): Promise<void>
}

type Answer = { readonly value?: unknown; readonly error?: string }

/** Resolves when the contestant is open. */
export async function startContestant(scope: Scope, module: string, url: string): Promise<ContestantProcess> {
  const child = fork(join(import.meta.dirname, 'contestant-process.ts'), [module, url], {
    execArgv: ['--conditions=fleetline-source'],
  })
  const ended = once(child, 'exit').then(([code]) => `A process of ${module} ended with ${String(code)}`)
  const end = async () => {
    child.kill('SIGKILL')
    await ended
  }
  atEnd(scope, end)
  const answer = async () => {
    const said = await Promise.race([once(child, 'message'), ended])
    if (typeof said === 'string') throw new Error(said)
    const [{ value, error }] = said as [Answer]
    if (error !== undefined) throw new Error(`${module}: ${error}`)
    return value
  }
  await answer()
  return {
    order: async (order, ...args) => {
      const answered = answer()
      child.send({ order, args })
      return (await answered) as ReturnType<Orders[typeof order]>
    },
    end,
  }
}
