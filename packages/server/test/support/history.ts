// What writers did and heard, and the checks of the log's invariants over it. A check looks up, it never searches: seqs
// give the order. Each violation begins with the number of the invariant that it breaks.
import { draftOf } from '../../src/session/draft.ts'
import type { Append, Appended } from '../../src/session/place.ts'

export type Op = {
  readonly id: string
  readonly digest: string
  /** Places in the order of what was seen: when it was sent, and when its answer was heard. */
  readonly sentAt: number
  heardAt?: number
  /** ok: acknowledged at seq. fail: certainly not written. Without either, nobody knows. */
  ok?: number
  fail?: string
}

export type Entry = { readonly seq: number; readonly id: string; readonly digest: string }
export type Log = { readonly head: number; readonly entries: readonly Entry[] }

export function createHistory() {
  const ops: Op[] = []
  let now = 0
  return {
    ops,
    /** Sends, and writes down what came of it. */
    async send(item: Append, append: (item: Append) => Promise<Appended>): Promise<Op> {
      const op: Op = { id: item.draft.id, digest: item.draft.digest, sentAt: (now += 1) }
      ops.push(op)
      const answer = await append(item).catch(() => undefined)
      op.heardAt = now += 1
      if (answer?.type === 'stored') op.ok = answer.seq
      else if (answer) op.fail = answer.type
      return op
    },
  }
}

export function textDraft(id: string, text = id) {
  const parts = [{ type: 'text', text }]
  return draftOf({ id, role: 'user', parts, author: { kind: 'user' } })
}

/** Every broken invariant of the log, one sentence each. */
export function brokenByLog(ops: readonly Op[], { head, entries }: Log): string[] {
  const bySeq = entries.toSorted((a, b) => a.seq - b.seq)
  const byId = Map.groupBy(entries, ({ id }) => id)
  return [
    ...lost(ops, byId),
    ...sparse(bySeq, head),
    ...outOfOrder(ops),
    ...notOnce(ops, byId),
    ...ghosts(ops, byId),
  ]
}

type ById = ReadonlyMap<string, readonly Entry[]>

function lost(ops: readonly Op[], byId: ById): string[] {
  return ops
    .filter(({ ok }) => ok !== undefined)
    .filter(({ id, ok, digest }) => {
      const found = byId.get(id) ?? []
      return found.length !== 1 || found[0]!.seq !== ok || found[0]!.digest !== digest
    })
    .map(({ id, ok }) => `L1: ${id}, acknowledged at ${ok}, is not there once with its content`)
}

function sparse(bySeq: readonly Entry[], head: number): string[] {
  const hole = bySeq.findIndex(({ seq }, index) => seq !== index + 1)
  if (hole >= 0) return [`L2: seq ${bySeq[hole]!.seq} stands where ${hole + 1} should`]
  return bySeq.length === head ? [] : [`L2: the head is ${head}, the last seq ${bySeq.length}`]
}

function outOfOrder(ops: readonly Op[]): string[] {
  const heard = ops.filter(({ ok }) => ok !== undefined).toSorted((a, b) => a.heardAt! - b.heardAt!)
  const broken: string[] = []
  let [next, highest] = [0, 0]
  // A repeat is acknowledged at the seq of the first: an id is held against the others from when it was first sent.
  const first = [...Map.groupBy(ops, ({ id }) => id).values()].map((tries) => ({
    ...tries[0]!,
    ok: tries.find(({ ok }) => ok !== undefined)?.ok,
  }))
  for (const op of first.toSorted((a, b) => a.sentAt - b.sentAt)) {
    for (; next < heard.length && heard[next]!.heardAt! < op.sentAt; next += 1)
      highest = Math.max(highest, heard[next]!.ok!)
    if (op.ok !== undefined && op.ok <= highest)
      broken.push(`L3: ${op.id} is at ${op.ok}, sent after ${highest} was acknowledged`)
  }
  return broken
}

function notOnce(ops: readonly Op[], byId: ById): string[] {
  const seqs = Map.groupBy(ops, ({ id }) => id)
  return [...seqs].flatMap(([id, all]) => {
    const named = new Set(all.flatMap(({ ok }) => ok ?? []))
    const rows = byId.get(id)?.length ?? 0
    return named.size > 1 || rows > 1
      ? [`L4: ${id} has ${rows} rows and was told seqs ${[...named].join()}`]
      : []
  })
}

function ghosts(ops: readonly Op[], byId: ById): string[] {
  const mayBe = new Set(ops.filter(({ fail }) => fail === undefined).map(({ id }) => id))
  return [...byId.keys()]
    .filter((id) => !mayBe.has(id))
    .map((id) => `L5: ${id} is there, and nobody may have sent it`)
}

type Reading = {
  readonly after: number
  readonly items: readonly { readonly seq: number; readonly id: string }[]
}

/** What a reader was told, against the log: D1, L6 and L9, one sentence each. */
export function brokenByReading({ after, items }: Reading, { entries }: Log): string[] {
  const stored = new Map(entries.map(({ seq, id }) => [seq, id]))
  return items.flatMap(({ seq, id }, index) => {
    const due = (items[index - 1]?.seq ?? after) + 1
    return [
      ...(seq === due ? [] : [`D1: seq ${seq} was told where ${due} was due`]),
      ...(stored.has(seq) ? [] : [`L9: seq ${seq} was told and is not in the log`]),
      ...(stored.has(seq) && stored.get(seq) !== id
        ? [`L6: seq ${seq} is ${stored.get(seq)}, told as ${id}`]
        : []),
    ]
  })
}
