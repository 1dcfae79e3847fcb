// Writes one JSON line per event. `msg` is a fixed phrase; everything that varies is a field. Fields come from an allow-list
// (S22), so a body, a header or a key cannot get into a line by accident. JSON escapes CR and LF. Of an error, the line shows
// type, code and message. PostgreSQL's messages for bad values (SQLSTATE classes 22 and 23) quote the value, so for these
// the line shows no message. What the code of an app throws is logged with its message and stack.
import { pino, type DestinationStream } from 'pino'
import type { Config } from '../config.ts'

type LogLevel = Config['logLevel']

export type LogFields = {
  readonly version?: string
  readonly service?: string
  readonly port?: number
  readonly host?: string
  readonly signal?: string
  readonly request_id?: string
  readonly method?: string
  readonly route?: string
  readonly status?: number
  readonly code?: string
  readonly duration_ms?: number
  readonly reason?: string
  readonly pod?: number
  readonly term?: number
  readonly task?: string
  readonly machine?: string
  readonly attempt?: number
  /** What the code of an app threw, and where. */
  readonly stack?: string
  /** Details of the event that fit no other field. */
  readonly data?: unknown
  readonly error?: unknown
}

export type Log = { readonly [Level in LogLevel]: (message: string, fields?: LogFields) => void } & {
  /** A log whose lines all carry these fields. */
  with(fields: LogFields): Log
}

type Options = { readonly level: LogLevel; readonly destination?: DestinationStream }

const ALLOWED: { readonly [Field in keyof LogFields]-?: true } = {
  version: true,
  service: true,
  port: true,
  host: true,
  signal: true,
  request_id: true,
  method: true,
  route: true,
  status: true,
  code: true,
  duration_ms: true,
  reason: true,
  pod: true,
  term: true,
  task: true,
  machine: true,
  attempt: true,
  stack: true,
  data: true,
  error: true,
}

export function createLog({ level, destination }: Options): Log {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  const lines = pino(options, destination ?? stdout())
  const bind = (bound: LogFields): Log => {
    const at =
      (name: LogLevel) =>
      (message: string, fields: LogFields = {}) =>
        lines.isLevelEnabled(name) && lines[name](allowed({ ...bound, ...fields }), message)
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      with: (fields) => bind({ ...bound, ...fields }),
    }
  }
  return bind({})
}

// Used instead of pino's own writer, which never lets the process exit once the reader of the pipe is gone.
function stdout(): DestinationStream {
  process.stdout.on('error', () => undefined)
  return { write: (line) => void process.stdout.write(line) }
}

function allowed(fields: LogFields): Record<string, unknown> {
  const entries = Object.entries(fields).filter(
    ([name, value]) => Object.hasOwn(ALLOWED, name) && value !== undefined,
  )
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name === 'error' ? describe(value) : value]),
  )
}

/** Whether PostgreSQL's message for this code quotes the value that it rejects. */
export function quotesValues(code: string): boolean {
  return /^2[23][0-9A-Z]{3}$/.test(code)
}

function describe(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { type: typeof error }
  const { code, severity } = error as { code?: unknown; severity?: unknown }
  const known = { type: error.name, ...(typeof code === 'string' ? { code } : {}) }
  if (severity !== undefined && quotesValues(String(code))) return known
  return {
    ...known,
    message: error.message,
    ...(error.cause === undefined ? {} : { cause: describe(error.cause) }),
    ...(error instanceof AggregateError ? { errors: error.errors.map(describe) } : {}),
  }
}
