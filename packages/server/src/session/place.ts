// Which seq each message of a batch takes, item by item, in their order. Pure: append.ts reads what it needs under the
// sessions' locks, and writes what it answers.
//
//   the session   the id                    ifHead            becomes
//   is not there                                              not-found
//   is there      is stored, same content   (not looked at)   stored at its seq, deduped
//   is there      is stored, other content                    conflict
//   is there      is new                    is not the head   stale
//   is there      is new                    is the head, or   stored at head + 1, and the head moves
//                                           was not given
// "Stored" and "head" take in what stands before it in the batch. A refused item changes nothing for the others (L11).
import type { Draft } from './draft.ts'

export type SessionKey = { readonly tenant: number; readonly session: string }

export type Append = SessionKey & {
  readonly draft: Draft
  /** Append only if the head is this. */
  readonly ifHead?: number
}

export type Appended =
  | { readonly type: 'stored'; readonly seq: number; readonly deduped: boolean }
  | { readonly type: 'not-found' }
  | { readonly type: 'conflict'; readonly seq: number }
  | { readonly type: 'stale'; readonly head: number }

export type Stored = { readonly seq: number; readonly digest: string }
export type Written = { readonly item: Append; readonly seq: number }

export type Placed = {
  /** One for each item, in their order. */
  readonly results: readonly Appended[]
  readonly written: readonly Written[]
  /** Of the sessions that grew: their new heads. */
  readonly heads: ReadonlyMap<string, SessionKey & { readonly head: number }>
}

type Found = {
  /** By nameOf: the heads of the sessions that are there. */
  readonly heads: ReadonlyMap<string, number>
  /** By the item's place in the batch: what is stored under its id. */
  readonly stored: ReadonlyMap<number, Stored>
}

export function nameOf({ tenant, session }: SessionKey): string {
  return `${tenant}/${session}`
}

export function place(items: readonly Append[], found: Found): Placed {
  const written: Written[] = []
  const grown = new Map<string, SessionKey & { readonly head: number }>()
  const inBatch = new Map<string, Stored>()
  const results = items.map((item, index): Appended => {
    const { tenant, session, draft, ifHead } = item
    const name = nameOf(item)
    const head = grown.get(name)?.head ?? found.heads.get(name)
    if (head === undefined) return { type: 'not-found' }
    const message = `${name}/${draft.key}`
    const before = found.stored.get(index) ?? inBatch.get(message)
    if (before) return repeated(before, draft)
    if (ifHead !== undefined && ifHead !== head) return { type: 'stale', head }
    const seq = head + 1
    written.push({ item, seq })
    grown.set(name, { tenant, session, head: seq })
    inBatch.set(message, { seq, digest: draft.digest })
    return { type: 'stored', seq, deduped: false }
  })
  return { results, written, heads: grown }
}

function repeated({ seq, digest }: Stored, draft: Draft): Appended {
  return digest === draft.digest ? { type: 'stored', seq, deduped: true } : { type: 'conflict', seq }
}
