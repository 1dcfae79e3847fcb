// Prints what a dev fleet reports: its panel, then one line per event. With --json each is an object.
import { ALL_RIGHTS } from '../../identity/scopes.ts'
import { SETTINGS } from '../../settings.ts'
import type { Output } from '../output.ts'

export type FleetEvent = {
  readonly time: string
  /** The name of a pod, or `fleet`. */
  readonly source: string
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}
export type OnEvent = (event: FleetEvent) => void

type Panel = {
  readonly version: string
  /** How to call this program again. */
  readonly command: string
  readonly page: string
  readonly api: string
  readonly operator: string
  readonly postgres: string
  readonly pods: number
  readonly logs: string
  readonly pids: string
  /** The alias of a session to talk in. */
  readonly session: string
  /** The agent that answers in it, and a hint about that agent. */
  readonly agent: readonly [agent: string, hint: string]
}

type More = { readonly now: number; readonly level?: string } & Readonly<Record<string, unknown>>

export function eventOf(
  source: string,
  message: string,
  { now, level = 'info', ...fields }: More,
): FleetEvent {
  return { time: new Date(now).toISOString(), source, level, message, fields }
}

/** Parses a line of a pod's log; undefined if it is not one. */
export function parseEvent(line: string, source: string): FleetEvent | undefined {
  try {
    const { time, level, msg, version, ...fields } = JSON.parse(line) as Record<string, unknown>
    void version // the same in every line
    if (typeof time !== 'string' || typeof msg !== 'string') return undefined // from the app, not the pod
    return { time, source, level: String(level), message: msg, fields }
  } catch {
    return undefined
  }
}

export function showPanel(output: Output, panel: Panel): void {
  if (output.isJson) return output.one({ ...panel, agent: panel.agent[0] })
  const rows = [
    ['page', panel.page, 'talk, and kill the pods meanwhile'],
    ['api', panel.api, ''],
    ['operator', panel.operator, '/readyz  /metrics'],
    ['postgres', panel.postgres, '--database-url URL to use yours'],
    ['pods', String(panel.pods), '--pods N'],
    ['agent', ...panel.agent],
    ['logs', panel.logs, ''],
  ] as const
  const width = Math.max(...rows.map(([, value]) => value.length))
  output.line(`fleetline ${panel.version}   dev fleet, not for production`)
  for (const [name, value, hint] of rows)
    output.line(`  ${name.padEnd(10)}${value.padEnd(width + 3)}${hint}`.trimEnd())
  output.line(
    `try   ${panel.command} sessions send ${panel.session} "write a long poem"${whereOf(panel.api)}`,
  )
  output.line(
    `token ${panel.command} token --user ada --rights ${ALL_RIGHTS.join()}${whereOf(panel.api)}   # another token for ada's browser`,
  )
  output.line(
    `try   kill -9 $(cat ${panel.pids.replace('N', '1')})   # meanwhile, if it says that pod-1 runs it`,
  )
}

export function showEvent(output: Output, { time, source, level, message, fields }: FleetEvent): void {
  if (output.isJson) return output.one({ time, source, level, message, ...fields })
  const { stack, ...rest } = fields
  const words = Object.entries(flat(rest)).map(([name, value]) => `${textOf(name)}=${textOf(value)}`)
  const mark = level === 'info' ? [] : [level]
  output.line([time.slice(11, 19), source.padEnd(7), ...mark, message, ...words].join('  '))
  if (typeof stack === 'string') for (const line of stack.split('\n')) output.line(`          ${line}`)
}

/** Empty if commands use this address by default. */
function whereOf(api: string): string {
  const { origin } = new URL(api)
  return origin === SETTINGS.apiUrl.fallback ? '' : ` --url ${origin}`
}

/** Replaces `data` by its fields. A field of the event wins over a field of `data` with the same name. */
function flat({ data, ...rest }: FleetEvent['fields']): FleetEvent['fields'] {
  if (data === undefined) return rest
  return typeof data === 'object' && data !== null && !Array.isArray(data)
    ? { ...data, ...rest }
    : { ...rest, data }
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(',')
  return typeof value === 'string' && !/\p{Cc}/u.test(value) ? value : JSON.stringify(value) // one line, whatever it says
}
