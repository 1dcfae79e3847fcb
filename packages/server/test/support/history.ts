// Records what writers sent and which answers they got, and checks the log's invariants against that. Seqs give the order, so a
// check only looks up and never searches. Each violation begins with the code of the broken invariant.
import { draftOf } from '../../src/session/draft.ts'
import type { Append, Appended } from '../../src/session/items.ts'

export type Op = {
  readonly id: string
  readonly digest: string
  /** Positions in the order of all events: when the message was sent, and when its answer arrived. */
  readonly sentAt: number
  heardAt?: number
  /** ok: acknowledged at this seq. fail: certainly not written. Neither: the outcome is unknown. */
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
    /** Sends a message and records the outcome. */
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

export function textDraft(id: string, text = id, by?: string) {
  const parts = [{ type: 'text', text }]
  const author = { kind: 'user', ...(by !== undefined && { id: by }) } as const
  return draftOf({ id, role: 'user', parts, author })
}

/** Returns one sentence for each broken invariant of the log. */
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
  // A repeat is acknowledged with the seq of the first send. So an id is compared with the others from its first send on.
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

/** Compares what a reader received with the log. Returns one sentence for each violation of D1, L6 and L9. */
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
