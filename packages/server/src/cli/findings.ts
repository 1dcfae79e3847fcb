// Prints what checks have found, with the remedy behind each finding that has one.
import type { Output } from './output.ts'

type Found = {
  readonly state: string
  readonly name: string
  readonly found: string
  readonly remedy?: string
}

/** Prints a line for each, and then how many of the named states there are. */
export function listFindings(output: Output, findings: readonly Found[], counted: readonly string[]): void {
  const rows = output.isJson ? findings : findings.map((one) => ({ ...one, found: textOf(one) }))
  output.list(['state', 'name', 'found'], rows)
  const counts = counted.map((state) => `${countOf(findings, state)} ${state}`)
  output.note(`${findings.length} checks: ${counts.join(', ')}.`)
}

export function countOf(findings: readonly Pick<Found, 'state'>[], wanted: string): number {
  return findings.filter(({ state }) => state === wanted).length
}

function textOf({ found, remedy }: Found): string {
  if (remedy === undefined) return found
  return `${found}. ${remedy}${remedy.endsWith(';') ? '' : '.'}` // a statement can be pasted as it is
}
