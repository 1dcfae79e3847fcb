// What a command says, and where: data to stdout, all else to stderr. A table on a terminal, tabs in a pipe; with
// --json one object, or one a line for lists. Cells are stripped of control characters, so that a stored name can
// neither steer a terminal nor fake a column.
import { stripVTControlCharacters } from 'node:util'
import type { ErrorCode } from '@fleetline/protocol'
import { Abort, Bug, Rejected, Retry } from '../errors.ts'

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  unavailable: 5,
  /** By Ctrl-C, as shells count it. */
  interrupted: 130,
} as const

const EXIT_BY_CODE: Readonly<Record<ErrorCode, number>> = {
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

type Sink = { write(text: string): unknown; readonly isTTY?: boolean }
type OutputRow = Readonly<Record<string, unknown>>

export type Output = {
  readonly isJson: boolean
  /** One thing: its fields, a line each. */
  one(row: OutputRow): void
  /** Many things under the named columns; JSON keeps every field. */
  list(columns: readonly string[], rows: readonly OutputRow[]): void
  /** The next of things that come one by one: no header, no widths. */
  next(cells: readonly unknown[], row: OutputRow): void
  /** A line of data that has a form of its own, without control characters. */
  line(text: string): void
  /** A piece of a text of many lines, as it comes: its control characters are left out, but for tabs and ends of lines. */
  text(piece: string): void
  /** To people, on stderr, on a line of its own; silent under --json. */
  note(text: string): void
  /** Reports the error and answers the exit code for it. */
  fail(error: unknown): number
}

export function createOutput(stdout: Sink, stderr: Sink, isJson: boolean): Output {
  let isInLine = false // of a terminal, in the middle of a text
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
