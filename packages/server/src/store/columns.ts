/** Turns rows into columns for `unnest`: one array for each name, in this order. */
export function columnsOf<Row>(
  rows: readonly Row[],
  ...names: readonly [keyof Row, ...(keyof Row)[]]
): unknown[][] {
  return names.map((name) => rows.map((row) => row[name]))
}
