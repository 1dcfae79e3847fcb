// Loads the app that a pod runs: a module that exports tasks, agents, and downstreams that have options, alone or in lists.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isAgent, type AgentDefinition } from '../agent/agent.ts'
import { Rejected } from '../errors.ts'
import { isMachine, type Machine } from '../task/machine.ts'
import { isDownstream, type DownstreamDefinition } from '../throttle/definition.ts'

/** The argument of a command that takes an app. */
export const APP: readonly [name: string, text: string] = [
  '[app]',
  'a module that exports tasks and agents: app.ts',
]

export type App = {
  readonly tasks: readonly Machine[]
  readonly agents: readonly AgentDefinition[]
  readonly downstreams: readonly DownstreamDefinition[]
}

export async function loadApp(path: string): Promise<App> {
  const exported = [...new Set(Object.values(await load(path)).flat())]
  const app = {
    tasks: exported.filter(isMachine),
    agents: exported.filter(isAgent),
    downstreams: exported.filter(isDownstream),
  }
  if (app.tasks.length + app.agents.length > 0) return app
  const example = `write export const hello = task('hello', …) or agent('hello', …)`
  throw new Rejected('invalid', `${path} exports no task, no machine and no agent: ${example}`)
}

/** For people: what a module brings, by kind. */
export function namesIn({
  tasks = [],
  agents = [],
  downstreams = [],
}: Partial<App>): Readonly<Record<string, string[]>> {
  const kinds = {
    tasks: tasks.filter(isPlain).map(({ name }) => name),
    machines: tasks.filter((one) => !isPlain(one)).map(({ name }) => name),
    agents: agents.map(({ name }) => name),
    downstreams: downstreams.map(({ key }) => key),
  }
  return Object.fromEntries(Object.entries(kinds).filter(([, names]) => names.length > 0))
}

function isPlain({ shape }: Machine): boolean {
  return shape === ''
}

async function load(path: string): Promise<Readonly<Record<string, unknown>>> {
  if (!existsSync(resolve(path)))
    throw new Rejected('invalid', `The app ${path} does not exist: correct the path`)
  try {
    return (await import(pathToFileURL(resolve(path)).href)) as Readonly<Record<string, unknown>>
  } catch (cause) {
    const reason = cause instanceof Error ? `${cause.message}${placeOf(cause)}` : String(cause)
    throw new Rejected('invalid', `${path} cannot be loaded: ${reason}`, { cause })
  }
}

/** Returns the file and the line of a syntax error, or '' if Node does not put them at the top of the stack. */
function placeOf({ name, stack = '' }: Error): string {
  const [, file, line] = /^(file:\/\/\/.+|\/.+):(\d+)$/m.exec(stack.split('\n    at ')[0]!) ?? []
  if (name !== 'SyntaxError' || file === undefined) return ''
  return ` (${file.startsWith('file:') ? fileURLToPath(file) : file}:${line})`
}
