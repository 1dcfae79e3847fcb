/** The columns of rows as a statement takes them for `unnest`: an array for each name, in this order. */
export function columnsOf<Row>(
  rows: readonly Row[],
  ...names: readonly [keyof Row, ...(keyof Row)[]]
): unknown[][] {
  return names.map((name) => rows.map((row) => row[name]))
}
