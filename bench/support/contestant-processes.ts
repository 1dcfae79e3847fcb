// Processes of a contestant, seen from the bench.
import { join } from 'node:path'
import type { Scope } from '../../packages/server/test/support/cleanup.ts'
import type { Orders } from './contestant-process.ts'
import { startOrdered, type OrderedProcess } from './orders.ts'

export type ContestantProcess = OrderedProcess<Orders>

/** Resolves when the contestant is open. */
export async function startContestant(scope: Scope, module: string, url: string): Promise<ContestantProcess> {
  return startOrdered<Orders>(scope, join(import.meta.dirname, 'contestant-process.ts'), [module, url])
}
