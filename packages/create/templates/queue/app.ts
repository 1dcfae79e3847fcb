// The tasks of this app. A task is a row in PostgreSQL; whichever pod has room runs it. It may run twice if its pod dies, so pass `key` to
// services that must not do the same thing twice.
import { task } from 'fleetline'
import { z } from 'zod'

export const greet = task('greet', ({ input }) => `Hello, ${input.name}!`, {
  input: z.object({ name: z.string() }),
})

/** Fails at its first attempt, so that you see it run again. */
export const invoice = task(
  'invoice',
  ({ input, attempt, key }) => {
    if (attempt === 1) throw new Error('The printer is out of paper')
    return { order: input.order, reference: key } // the key is the same at every attempt
  },
  { input: z.object({ order: z.string() }), attempts: 5, timeout: '30s' },
)
