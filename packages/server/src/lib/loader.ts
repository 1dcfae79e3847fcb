// Groups reads that are asked for at the same time into one. While one read is under way, new items wait for the next. So an idle
// loader adds no wait, and reads grow by themselves under load. An item fails if its read fails.

type Options<Item, Result> = {
  /** The most items in one read. */
  readonly most: number
  /** Resolves to one result per item, in the same order. */
  readonly load: (items: readonly Item[]) => Promise<readonly Result[]>
}
type Waiting<Item, Result> = {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export function createLoader<Item, Result>({
  most,
  load,
}: Options<Item, Result>): (item: Item) => Promise<Result> {
  const waiting: Waiting<Item, Result>[] = []
  let isLoading = false
  const loadAll = async () => {
    isLoading = true
    await Promise.resolve() // whatever asks in the same tick joins
    while (waiting.length > 0) {
      const group = waiting.splice(0, most)
      try {
        const results = await load(group.map(({ item }) => item))
        group.forEach(({ resolve }, n) => resolve(results[n]!))
      } catch (error) {
        group.forEach(({ reject }) => reject(error))
      }
    }
    isLoading = false
  }
  return (item) => {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    waiting.push({ item, resolve, reject })
    if (!isLoading) void loadAll()
    return promise
  }
}
