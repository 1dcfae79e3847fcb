// Lines of JSON (`application/x-ndjson`), as a format of streams. A piece is several lines. The last line says that it is the last one; without
// it, the answer was cut off.
import type { StreamFormat, StreamSource } from './stream.ts'

/** The body that a handler returns for lines. */
export type Lines = StreamSource<readonly object[]>

export const LINES: StreamFormat<readonly object[]> = {
  contentType: 'application/x-ndjson',
  comment: '',
  textOf: (lines) => lines.map(lineOf).join(''),
  lastText: ({ code, message }) => lineOf({ type: 'cut-off', code, text: message }),
}

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`
}
