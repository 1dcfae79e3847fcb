// Prints what a command says: data to stdout, everything else to stderr. Data is a table on a terminal and tab-separated in
// a pipe. With --json it is one object, or one object per line for lists. Control characters are removed from cells, so that
// a stored name can neither control a terminal nor fake a column.
import { stripVTControlCharacters } from 'node:util'
import type { ErrorCode } from '@fleetline/protocol'
import { Abort, Bug, Rejected, Retry } from '../errors.ts'
import { isMissingRight } from '../store/sqlstate.ts'

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  unavailable: 5,
  /** `doctor` or `agents check` has found something that must be fixed. */
  notClean: 6,
  /** Ended by Ctrl-C; the number that shells use. */
  interrupted: 130,
  /** The same for SIGPIPE. */
  pipeClosed: 141,
} as const

/** What each exit code means, for the reference page. */
export const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  done: 'The command has done its work.',
  failed: 'Fleetline, or a program that it needs, has a fault, or the output could not be written.',
  usage: 'The command line or a value in it is not valid.',
  notFound: 'What the command names does not exist, or you may not see it.',
  refused: 'The request was refused.',
  unavailable: 'The fleet or the database cannot do this now. Try again.',
  notClean: '`fleetline doctor` has found something red, or a check of `fleetline agents check` has failed.',
  interrupted: 'Ctrl-C ended the command.',
  pipeClosed:
    'The program that reads the output, such as `head`, closed the pipe before the command was done. Its work may be unfinished.',
}
export const EXIT_BY_CODE: Readonly<Record<ErrorCode, number>> = {
  invalid: EXIT.usage,
  too_many: EXIT.usage,
  too_large: EXIT.usage,
  unauthenticated: EXIT.refused,
  forbidden: EXIT.refused,
  conflict: EXIT.refused,
  stale: EXIT.refused,
  fenced: EXIT.refused,
  not_found: EXIT.notFound,
  gone: EXIT.notFound,
  rate_limited: EXIT.unavailable,
  unavailable: EXIT.unavailable,
  internal: EXIT.failed,
}

const CONTROLS = /[^\P{Cc}\t\n]/gu

export type Sink = {
  write(text: string): unknown
  readonly isTTY?: boolean
  /** Resolves when what was written has left the memory of the process, or most of it. */
  drained?(): Promise<void>
}
type OutputRow = Readonly<Record<string, unknown>>

export type Output = {
  readonly isJson: boolean
  /** Prints one object, with a line for each field. */
  one(row: OutputRow): void
  /** Prints many objects under the named columns; JSON keeps every field. */
  list(columns: readonly string[], rows: readonly OutputRow[]): void
  /** Prints the next object of a stream, without header and column widths. */
  next(cells: readonly unknown[], row: OutputRow): void
  /** Prints one line of data as it is, without control characters. */
  line(text: string): void
  /** Resolves when stdout can take more. */
  drained(): Promise<void>
  /** Prints a piece of a longer text. Control characters are removed, except tabs and line ends. */
  text(piece: string): void
  /** Prints a message for people to stderr, on its own line; silent with --json. */
  note(text: string): void
  /** Reports an error and returns its exit code. */
  fail(error: unknown): number
}

export function createOutput(stdout: Sink, stderr: Sink, isJson: boolean): Output {
  let isInLine = false // the terminal's cursor is in the middle of a text
  const print = (text: string) => void stdout.write(`${text}\n`)
  const layOut = (rows: readonly (readonly string[])[]) =>
    stdout.isTTY === true ? align(rows) : rows.map((cells) => cells.join('\t'))
  return {
    isJson,
    one: (row) => {
      if (isJson) return print(JSON.stringify(row))
      layOut(Object.entries(row).map(([name, value]) => [name, cell(value)])).forEach(print)
    },
    list: (columns, rows) => {
      if (isJson) return rows.forEach((row) => print(JSON.stringify(row)))
      const cells = rows.map((row) => columns.map((column) => cell(row[column])))
      const header = stdout.isTTY === true ? [columns.map((column) => column.toUpperCase())] : []
      layOut([...header, ...cells]).forEach(print)
    },
    next: (cells, row) =>
      print(isJson ? JSON.stringify(row) : cells.map(cell).join(stdout.isTTY === true ? '  ' : '\t')),
    line: (text) => print(text.replaceAll(CONTROLS, '')),
    drained: async () => stdout.drained?.(),
    text: (piece) => {
      const shown = piece.replaceAll(CONTROLS, '')
      if (shown === '') return
      stdout.write(shown)
      isInLine = stdout.isTTY === true && !shown.endsWith('\n')
    },
    note: (text) => {
      if (isJson) return
      stderr.write(`${isInLine ? '\n' : ''}${text.replaceAll(CONTROLS, '')}\n`)
      isInLine = false
    },
    fail: (error) => {
      const { code, text: said } = described(error)
      const text = said.replaceAll(CONTROLS, '')
      const end = isInLine ? '\n' : ''
      stderr.write(isJson ? `${JSON.stringify({ error: { code, text } })}\n` : `${end}fleetline: ${text}\n`)
      return EXIT_BY_CODE[code]
    },
  }
}

function described(error: unknown): { readonly code: ErrorCode; readonly text: string } {
  if (isMissingRight(error))
    return { code: 'forbidden', text: `${error.message}. Run fleetline doctor: it prints the grants` }
  const inner = error instanceof AggregateError ? error.errors.map((one) => described(one).text) : []
  const text = [error instanceof Error ? error.message : String(error), ...inner].join(': ')
  const isOurs =
    error instanceof Retry || error instanceof Abort || error instanceof Rejected || error instanceof Bug
  return { code: isOurs ? error.code : 'internal', text }
}

function cell(value: unknown): string {
  const text =
    value instanceof Date ? value.toISOString() : typeof value === 'string' ? value : JSON.stringify(value)
  return stripVTControlCharacters(text ?? '').replaceAll(/\p{Cc}/gu, ' ')
}

function align(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length))) ?? []
  return rows.map((cells) =>
    cells
      .map((text, column) => text.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}
