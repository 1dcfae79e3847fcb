// The app of the pods that tests start. The input of a task decides what the task does. The last message decides what the agent
// says. The task `calls` does the same as `work`, but with a permit of a downstream.
//   number            returns its double
//   { until: file }   waits until the file exists, then returns `free`; ends early if it is aborted
//   { waitsMs: ms }   waits this many milliseconds
//   { kills: true }   kills the process that runs it
//
//   word              says the word
//   until:file        waits until the file exists or the call is aborted
//
// The agent `spender` reports 10 tokens, waits until the file exists that the message names, and reports 20 more.
// The agent `writer` says the last message again, and summarises conversations of a page or more.
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

export const writer = agent(
  'writer',
  async function* ({ messages }) {
    yield { type: 'start' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: messages.at(-1)!.parts[0]!['text'] }
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish' }
  },
  {
    compact: ({ messages, through }) => `${messages.length} messages, up to ${through}`,
    compaction: { tokenBudget: 1_000, triggerRatio: 0.5 },
  },
)

export const spender = agent('spender', async function* ({ messages, signal }) {
  const file = messages.at(-1)!.parts[0]!['text'] as string
  const step = (id: string, inputTokens: number) => ({
    type: 'data-usage',
    id,
    data: { model: 'small', usage: { inputTokens, outputTokens: 1 } },
  })
  yield* [{ type: 'start' }, step('1', 10), { type: 'text-start', id: '1' }]
  yield { type: 'text-delta', id: '1', delta: 'half ' }
  while (!existsSync(file)) await pause(20, undefined, { signal })
  yield step('2', 20)
  yield* [{ type: 'text-delta', id: '1', delta: 'whole' }, { type: 'text-end', id: '1' }, { type: 'finish' }]
})

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
