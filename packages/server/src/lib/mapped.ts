/** Changes each value of a stream. Ends the stream if its reader leaves. */
export async function* mapped<In, Out>(
  source: AsyncIterable<In>,
  change: (one: In) => Out,
): AsyncGenerator<Out> {
  for await (const one of source) yield change(one)
}
