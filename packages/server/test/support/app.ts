// The app of pods that tests start: what its task does is said in its input.
//   number            its double
//   { until: file }   nothing until the file is there, then `free`; ends early when it is aborted
//   { waitsMs: ms }   nothing for so long
//   { kills: true }   the end of the process that runs it
import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { task } from 'fleetline'

const Input = z.union([
  z.number(),
  z.object({ until: z.string() }),
  z.object({ waitsMs: z.number() }),
  z.object({ kills: z.literal(true) }),
])

export const work = task(
  'work',
  async ({ input, signal }) => {
    if (typeof input === 'number') return input * 2
    if ('waitsMs' in input) await pause(input.waitsMs, undefined, { signal })
    else if ('kills' in input) process.kill(process.pid, 'SIGKILL')
    else while (!existsSync(input.until)) await pause(20, undefined, { signal })
    return 'free'
  },
  { input: Input },
)
