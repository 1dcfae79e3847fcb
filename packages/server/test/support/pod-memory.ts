// Measures the memory of a pod. A signal asks the pod for it, and the pod answers after it has collected its garbage.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { eventually } from './eventually.ts'
import { linesOf } from './pods.ts'
import type { Program } from './program.ts'

/** Add this to the environment of a pod that you want to measure. */
export const ASKABLE = { NODE_OPTIONS: `--import ${join(import.meta.dirname, 'memory.ts')}` }

type Memory = { readonly heapUsed: number; readonly external: number; readonly rss: number }

export async function memoryOf(program: Program): Promise<Memory> {
  const said = () => linesOf(program).filter(({ msg }) => msg === 'memory') as unknown as Memory[]
  const before = said().length
  program.kill('SIGUSR2')
  const found = await eventually(
    () => {
      assert.ok(said().length > before)
      return said()
    },
    { what: 'what the pod holds', patienceMs: 120_000 },
  )
  return found.at(-1)!
}
