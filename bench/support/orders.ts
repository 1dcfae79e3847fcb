// Processes of a bench. Each carries out the orders that the bench sends over a channel, one at a time.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { atEnd, type Scope } from '../../packages/server/test/support/cleanup.ts'

export type OrderedProcess<Orders> = {
  order<Name extends keyof Orders>(order: Name, ...args: Args<Orders[Name]>): Promise<Answered<Orders[Name]>>
  /** Ends the process. */
  end(): Promise<void>
}

type Args<Order> = Order extends (...args: infer These) => unknown ? These : never
type Answered<Order> = Order extends (...args: never[]) => infer Value ? Value : never
type Answer = { readonly value?: unknown; readonly error?: string }

/** Resolves when the program at the path has called `obey`. */
export async function startOrdered<Orders>(
  scope: Scope,
  path: string,
  args: readonly string[] = [],
): Promise<OrderedProcess<Orders>> {
  const name = [path, ...args].join(' ')
  const child = fork(path, args, { execArgv: ['--conditions=fleetline-source'] })
  const ended = once(child, 'exit').then(([code]) => `A process of ${name} ended with ${String(code)}`)
  const end = async () => {
    child.kill('SIGKILL')
    await ended
  }
  atEnd(scope, end)
  const answer = async () => {
    const said = await Promise.race([once(child, 'message'), ended])
    if (typeof said === 'string') throw new Error(said)
    const [{ value, error }] = said as [Answer]
    if (error !== undefined) throw new Error(`${name}: ${error}`)
    return value
  }
  await answer()
  return {
    order: async (order, ...args) => {
      const answered = answer()
      child.send({ order, args })
      return (await answered) as Answered<Orders[typeof order]>
    },
    end,
  }
}

/** In the process: carries the orders out, from now on. */
export function obey<Orders>(orders: {
  [Name in keyof Orders]: (...args: Args<Orders[Name]>) => Promise<Answered<Orders[Name]>>
}): void {
  process.on('message', ({ order, args }: { order: keyof Orders; args: never[] }) => {
    const answer = orders[order] as unknown as (...args: never[]) => Promise<unknown>
    answer(...args).then(
      (value) => process.send!({ value }),
      (error: unknown) => process.send!({ error: String(error) }),
    )
  })
  process.send!({ value: 'open' })
}
