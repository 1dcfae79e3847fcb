// fleetline tasks ls, get, enqueue, retry. Each is one request; `ls` may ask for several pages.
import { ERROR_CODES, PAGE_LIMITS, TASK_LIMITS } from '@fleetline/protocol'
import type { z } from 'zod'
import { Rejected, Retry } from '../../errors.ts'
import { enqueuedSchema, taskSchema, tasksSchema } from '../../gateway/task-schemas.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { wholeOf } from '../options.ts'
import { EXIT, type Output } from '../output.ts'

/** Asks for pages until it has `limit` tasks. A page may be short although there are more tasks. */
export async function list({ flags, options, output }: CommandCall): Promise<number> {
  const api = apiOf({ flags, output })
  const limit = numberOf('--limit', options['limit'], 1, PAGE_LIMITS.items) ?? USUAL
  const tasks: Listed['tasks'] = []
  let next = options['before'] ?? null
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const wanted = { ...options, before: next ?? undefined, limit: String(limit - tasks.length) }
    const path = `/tasks${queryOf(wanted, ['state', 'queue', 'machine', 'before', 'limit'])}`
    const page = await api.ask({ method: 'GET', path, answer: tasksSchema })
    tasks.push(...page.tasks)
    next = page.next
    if (next === null || tasks.length >= limit) break
  }
  output.list(['id', 'machine', 'state', 'transition', 'reason', 'spent', 'code', 'createdAt'], tasks)
  if (next === null) return EXIT.done
  if (output.isJson) output.one({ next })
  else output.note(`There may be older tasks. To see them, add --before ${next}`)
  return EXIT.done
}

type Listed = z.infer<typeof tasksSchema>

const USUAL = 50
const MOST_PAGES = 100 // takes some seconds: two million live tasks, and as many that ended

export async function get({ flags, args, output }: CommandCall): Promise<number> {
  show(output, await apiOf({ flags, output }).ask({ method: 'GET', path: pathOf(args), answer: taskSchema }))
  return EXIT.done
}

export async function enqueue({ flags, args, options, output }: CommandCall): Promise<number> {
  const { queue, runAt, id } = options
  const body = {
    machine: args[0],
    input: inputOf(args[1]),
    queue,
    runAt,
    id,
    priority: numberOf('--priority', options['priority'], 0, TASK_LIMITS.priority),
    maxAttempts: numberOf('--max-attempts', options['maxAttempts'], 1, TASK_LIMITS.attempts),
  }
  try {
    output.one(
      await apiOf({ flags, output }).ask({ method: 'POST', path: '/tasks', body, answer: enqueuedSchema }),
    )
  } catch (error) {
    if (!(error instanceof Retry) || ERROR_CODES[error.code].outcome === 'refused') throw error
    const next =
      id === undefined
        ? 'Whether it was enqueued is not known: see `fleetline tasks ls`. Under an --id of its own it can be sent again.'
        : 'Whether it was enqueued is not known: sent again with this --id, it is there once.'
    throw new Retry(error.code, `${error.message} ${next}`, { cause: error })
  }
  return EXIT.done
}

export async function retry({ flags, args, options, output }: CommandCall): Promise<number> {
  const path = `${pathOf(args)}/retry${queryOf(options, ['from'])}`
  show(output, await apiOf({ flags, output }).ask({ method: 'POST', path, answer: taskSchema }))
  return EXIT.done
}

type Shown = z.infer<typeof taskSchema>

/** For people, prints one line for each transition of the machine; a task of one handler has none. */
function show(output: Output, task: Shown): void {
  if (output.isJson) return output.one(task)
  const { timeline, ...fields } = task
  const steps = task.shape === '' ? [] : timeline.map((step) => [`to ${step.name}`, wordsOf(step)] as const)
  output.one({ ...fields, ...Object.fromEntries(steps) })
}

function wordsOf({ state, ms, attempt, value }: Shown['timeline'][number]): string {
  return ms === null ? state : `${state} in ${ms} ms by attempt ${attempt}: ${JSON.stringify(value)}`
}

function pathOf([task]: CommandCall['args']): string {
  return `/tasks/${encodeURIComponent(task!)}`
}

function numberOf(flag: string, text: CommandOptions[string], min: number, max: number): number | undefined {
  return text === undefined ? undefined : wholeOf(flag, text, { min, max })
}

function inputOf(text: string | undefined): unknown {
  if (text === undefined) return null
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Rejected('invalid', `input must be JSON, as '{"name": "Ada"}' or '"Ada"'`, { cause })
  }
}
