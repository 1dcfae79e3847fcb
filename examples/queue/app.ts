// Three tasks: one that works, one that works at the second attempt, one that may need a person.
import { readdir } from 'node:fs/promises'
import { task } from 'fleetline'
import { z } from 'zod'

export const greet = task('greet', ({ input }) => `Hello, ${input.name}!`, {
  input: z.object({ name: z.string() }),
})

export const invoice = task('invoice', ({ attempt, key }) => {
  if (attempt === 1) throw new Error('The printer is out of paper')
  return { reference: key } // the same at every attempt
})

export const count = task('count', async ({ input }) => (await readdir(input.folder)).length, {
  input: z.object({ folder: z.string() }),
  attempts: 1,
  timeout: '30s',
})
