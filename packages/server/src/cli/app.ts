// The app that a pod runs: a module that exports its tasks, alone or in lists.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Rejected } from '../errors.ts'
import { isTask, type TaskDefinition } from '../task/definition.ts'

/** As an argument of a command. */
export const APP: readonly [name: string, text: string] = ['[app]', 'a module that exports tasks: app.ts']

export async function loadApp(path: string): Promise<TaskDefinition[]> {
  const found = [
    ...new Set(
      Object.values(await load(path))
        .flat()
        .filter(isTask),
    ),
  ]
  if (found.length > 0) return found
  throw new Rejected('invalid', `${path} exports no task: write export const hello = task('hello', …)`)
}

async function load(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return (await import(pathToFileURL(resolve(path)).href)) as Readonly<Record<string, unknown>>
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Rejected('invalid', `${path} cannot be loaded: ${reason}`, { cause })
  }
}
