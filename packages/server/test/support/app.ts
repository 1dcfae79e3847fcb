// The app of pods that tests start: what its task does is said in its input.
//   number            its double
//   { until: file }   nothing until the file is there, then `free`; ends early when it is aborted
import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { task } from 'fleetline'

const Input = z.union([z.number(), z.object({ until: z.string() })])

export const work = task(
  'work',
  async ({ input, signal }) => {
    if (typeof input === 'number') return input * 2
    while (!existsSync(input.until)) await pause(20, undefined, { signal })
    return 'free'
  },
  { input: Input },
)
