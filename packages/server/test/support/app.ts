// The app of pods that tests start: what its tasks do is said in their input, what its agent says in the last message. `calls`
// does it under a permit of a downstream.
//   number            its double
//   { until: file }   nothing until the file is there, then `free`; ends early when it is aborted
//   { waitsMs: ms }   nothing for so long
//   { kills: true }   the end of the process that runs it
//
//   word              the word
//   until:file        nothing until the file is there, or the call is aborted
import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { agent, task, type TaskContext } from 'fleetline'

const Input = z.union([
  z.number(),
  z.object({ until: z.string() }),
  z.object({ waitsMs: z.number() }),
  z.object({ kills: z.literal(true) }),
])

async function workOn({ input, signal }: TaskContext<z.infer<typeof Input>>) {
  if (typeof input === 'number') return input * 2
  if ('waitsMs' in input) await pause(input.waitsMs, undefined, { signal })
  else if ('kills' in input) process.kill(process.pid, 'SIGKILL')
  else while (!existsSync(input.until)) await pause(20, undefined, { signal })
  return 'free'
}

export const CALLED = 'provider/account'
export const work = task('work', workOn, { input: Input })
export const calls = task('calls', workOn, { input: Input, downstream: CALLED })

export const parrot = agent('parrot', async function* ({ messages, signal }) {
  const words = (messages.at(-1)!.parts[0]!['text'] as string).split(' ')
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  for (const word of words) {
    const [, file] = word.split('until:')
    if (file === undefined) yield { type: 'text-delta', id: '1', delta: `${word} ` }
    else while (!existsSync(file)) await pause(20, undefined, { signal })
  }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
})
