// A device's view of a session. Received frames and own messages go in; what the device shows comes out. Pure. Even if frames are
// repeated, late or missing, the view ends with what is stored:
//
//   received                                    the view
//   messages  the item right after the head     takes it; it replaces its own row of that id and that turn's open reply
//             one at the head or below          already has it
//             one further ahead                 has missed something: asks again
//   turn      in a later state                  takes it; a turn that has ended has no open reply
//             in an earlier state               already has it
//   chunks    of a turn that is not live here,
//             or whose reply is in the log      ignores them
//             of an older attempt, or known     already has them
//             the next ones                     adds them to the open reply
//             from the first, with new ones     starts the open reply again. What was shown stays, until the reply says more or else
//             others                            has missed something: asks again
//   erased                                      forgets what these messages said
//   begun     after another seq than the head
//                                             forgets the log, the turn and the reply: what follows is not next to them
//   older     messages that end before the log
//                                             puts them before it
//   gap                                         forgets the log, the turn and the reply: they are of another history
//
//   an own message   pending ── acked, or its item came ──▶ sent    acked: its row stays until its item comes
//                    pending ── refused ──▶ failed ── retry ──▶ pending, as the last one; or discard
//                    acked, and a gap or another's item came ──▶ pending: sent again with its id, stored once
import {
  createAssembler,
  hasContent,
  isWithin,
  isTransient,
  mergeDeltas,
  type Ack,
  type Author,
  type Chunk,
  type ChunksFrame,
  type Frame,
  type Item,
  type Message as UiMessage,
  type MessagesFrame,
  type Turn,
} from '@fleetline/protocol'
import type { Refusal } from './failure.ts'

/** A message as a device shows it. */
export type Message = UiMessage &
  Pick<Item, 'turn' | 'answers' | 'status' | 'erased' | 'replaces'> & {
    /** Its position in the log; null if it has none yet. */
    readonly seq: number | null
    /** `pending`: not known to be stored. `sent`: stored. `failed`: rejected. `open`: a reply that is still being said. */
    readonly delivery: 'pending' | 'sent' | 'failed' | 'open'
    readonly author: Author
    /** RFC 3339, UTC; absent until it is in the log. */
    readonly at?: string
    /** Only if it failed. */
    readonly refusal?: Refusal
    /** Another message stands in its place. Such messages are not shown. */
    readonly isReplaced?: boolean
  }

/**
 * `waiting`: no pod has claimed the turn, or the turn starts after a summary. `working`: its agent has said nothing yet. `recovering`:
 * the turn is retried and has said nothing new yet. `failed`: the last turn failed.
 */
export type Status = 'idle' | 'waiting' | 'working' | 'streaming' | 'recovering' | 'failed'

export type View = {
  /** The seq before the first message of `log`. Older messages are not here. */
  readonly base: number
  readonly head: number
  /** How often messages were erased or forgotten. Older messages that were requested before the last time are not taken. */
  readonly version: number
  readonly log: readonly Message[]
  /** Own messages that are not in the log here. */
  readonly rows: readonly Message[]
  /** The live turn, or the last one. */
  readonly turn: Turn | null
  readonly open: Open | null
  /** From the newest ack: the epoch of the turn that will answer, and the turn, unless it has not started because the conversation is
   *  being summarised. */
  readonly asked: { readonly turn: string | undefined; readonly epoch: number } | null
}
/** What an attempt has said: all chunks below `next`, with deltas merged. */
type Open = {
  readonly attempt: number
  readonly next: number
  readonly chunks: readonly Chunk[]
  readonly message: Message
  /** What is on screen: the longer words of before, while this message is a beginning of them. */
  readonly shown: Message
}

/** What the device learns about its log besides frames. */
export type Paged =
  | { readonly type: 'begun'; readonly from: number }
  | { readonly type: 'older'; readonly items: readonly Item[] }

export type Own =
  | { readonly type: 'send'; readonly message: UiMessage }
  | { readonly type: 'acked'; readonly ack: Ack }
  | { readonly type: 'refused'; readonly id: string; readonly refusal: Refusal }
  | { readonly type: 'retry'; readonly id: string }
  | { readonly type: 'discard'; readonly id: string }

type Effect =
  /** Something was missed: the device must ask for what follows its head, and for the live turn. */
  { readonly type: 'ask' } | { readonly type: 'sent'; readonly id: string; readonly seq: number }
export type Step = { readonly view: View; readonly effects: readonly Effect[] }

export const EMPTY: View = {
  base: 0,
  head: 0,
  version: 0,
  log: [],
  rows: [],
  turn: null,
  open: null,
  asked: null,
}

export function step(view: View, event: Frame | Paged | Own): Step {
  switch (event.type) {
    case 'messages':
      return takeItems(view, event)
    case 'turn':
      return only(takeTurn(view, event.turn))
    case 'chunks':
      return takeChunks(view, event)
    case 'gap':
      return only(forget(view, event.to))
    case 'begun':
      return only(event.from === view.head ? view : forget(view, event.from))
    case 'older':
      return takeOlder(view, event.items)
    case 'erased':
      return only(erase(view, new Set(event.seqs)))
    case 'send':
      return only({ ...view, rows: [...view.rows, rowOf(event.message)] })
    case 'acked':
      return takeAck(view, event.ack)
    case 'refused':
      return only(withRow(view, event.id, (row) => ({ ...row, delivery: 'failed', refusal: event.refusal })))
    case 'retry':
      return only(retried(view, event.id))
    case 'discard':
      return only({ ...view, rows: view.rows.filter((row) => row.id !== event.id || !isFailed(row)) })
  }
}

/** What is shown, in order: stored messages, own messages, the open reply. While a reply is written anew, the old one is hidden. */
export function messagesOf({ log, rows, open, turn }: View): readonly Message[] {
  const hidden = turn?.endedAt === null ? turn.replaces : []
  const stored = log.filter(({ seq, isReplaced }) => !isReplaced && !isWithin(seq!, hidden))
  return open && hasContent(open.shown) ? [...stored, ...rows, open.shown] : [...stored, ...rows]
}

/** The epoch of the session; 0 if this device has heard of no turn. */
export function epochOf({ turn, asked }: View): number {
  const known = turn ? turn.epoch + Number(turn.state === 'stopped') : 0
  return Math.max(known, asked?.epoch ?? 0)
}

export function statusOf(view: View): Status {
  const { turn, open, asked } = view
  if (asked && asked.epoch > (turn?.epoch ?? 0)) return 'waiting'
  const reply = turn?.endedAt === null ? replyOf(view, turn.id) : undefined
  if (reply) return reply.status === 'failed' ? 'failed' : 'idle' // the turn's end follows as a frame
  switch (turn?.state) {
    case 'queued':
      return turn.attempt === 0 ? 'waiting' : 'recovering'
    case 'running':
      if (open && open.attempt >= turn.attempt) return 'streaming'
      return turn.attempt < 2 ? 'working' : 'recovering'
    case 'failed':
      return 'failed'
    case 'done':
    case 'stopped':
    case undefined:
      return 'idle'
  }
}

/** Where a new stream must begin if earlier frames cannot be relied on. */
export function beginningOf({ head, turn }: View): { readonly after: number; readonly epoch: number } {
  const isOver = turn !== null && turn.endedAt !== null && turn.halted !== false
  return { after: head, epoch: turn ? turn.epoch + Number(isOver) : 1 }
}

/** The turn that a stop would name: the live one, as far as this device knows. */
export function liveTurn({
  turn,
  asked,
}: View): { readonly turn: string; readonly epoch: number } | undefined {
  if (asked?.turn && asked.epoch > (turn?.epoch ?? 0)) return { turn: asked.turn, epoch: asked.epoch }
  return turn && turn.endedAt === null ? { turn: turn.id, epoch: turn.epoch } : undefined
}

function takeItems(view: View, { items }: MessagesFrame): Step {
  const fresh = items.filter(({ seq }) => seq > view.head)
  if (fresh.length === 0) return only(view)
  if (fresh[0]!.seq !== view.head + 1) return missed(view)
  const { seq: head } = fresh.at(-1)!
  const turns = new Set(fresh.map(({ turn }) => turn))
  const { view: next, effects } = withoutRows(view, new Map(fresh.map(({ id, seq }) => [id, seq])))
  const isElsewhere = ({ seq }: Message) => seq !== null && seq <= head // another item has its seq: its history is gone
  return {
    view: {
      ...next,
      head,
      log: markReplaced([...view.log, ...fresh.map(messageOf)], fresh),
      rows: next.rows.map((row) => (isElsewhere(row) ? unsent(row) : row)),
      open: view.open && turns.has(view.open.message.turn) ? null : view.open,
    },
    effects,
  }
}

function takeOlder(view: View, items: readonly Item[]): Step {
  if (items.at(-1)?.seq !== view.base) return only(view) // the log has begun elsewhere meanwhile
  const seqs = new Map(items.map(({ id, seq }) => [id, seq]))
  const base = items[0]!.seq - 1
  const log = [...markReplaced(items.map(messageOf), [...items, ...view.log]), ...view.log]
  return withoutRows({ ...view, base, log }, seqs)
}

function messageOf(item: Item): Message {
  return { ...item, delivery: 'sent' }
}

function markReplaced(log: readonly Message[], by: readonly Pick<Message, 'replaces'>[]): readonly Message[] {
  const ranges = by.flatMap(({ replaces = [] }) => replaces)
  return ranges.length > 0
    ? log.map((one) => (isWithin(one.seq!, ranges) ? { ...one, isReplaced: true } : one))
    : log
}

/** The messages with these ids are in the log. */
function withoutRows(view: View, seqs: ReadonlyMap<string, number>): Step {
  const stored = view.rows.filter(({ id, seq }) => seqs.has(id) && seq === null)
  const rows = view.rows.filter(({ id }) => !seqs.has(id))
  return {
    view: rows.length === view.rows.length ? view : { ...view, rows },
    effects: stored.map(({ id }) => ({ type: 'sent', id, seq: seqs.get(id)! })),
  }
}

function takeTurn(view: View, turn: Turn): View {
  if (view.turn && isLater(view.turn, turn)) return view
  const isSame = view.turn?.id === turn.id
  return { ...view, turn, open: isSame && turn.endedAt === null ? view.open : null }
}

/** The order is: queued, running, queued again and running with a higher attempt, ended, halted. */
function isLater(one: Turn, other: Turn): boolean {
  const [a, b] = [one, other].map(({ epoch, attempt, state, endedAt, halted }) => [
    epoch,
    endedAt === null ? 0 : 1,
    attempt,
    state === 'queued' ? 1 : 0,
    halted === true ? 1 : 0,
  ]) as [number[], number[]]
  const at = a.findIndex((value, index) => value !== b[index])
  return at >= 0 && a[at]! > b[at]!
}

function takeChunks(view: View, frame: ChunksFrame): Step {
  const { turn, open } = view
  const { attempt, index, count } = frame
  const isLive = turn?.id === frame.turn && turn.endedAt === null
  if (!isLive || replyOf(view, frame.turn)) return only(view)
  const known = open?.attempt === attempt ? open.next : 0
  if ((open && attempt < open.attempt) || index + count <= known) return only(view)
  if (index !== 0 && index !== known) return missed(view)
  const more = frame.chunks.filter((chunk) => !isTransient(chunk)) // those belong to no message
  const chunks = mergeDeltas(index === 0 ? more : [...open!.chunks, ...more])
  const message = assembled(turn, chunks)
  if (!message) return missed({ ...view, open: null })
  const hasBegunAgain = open !== null && (index === 0 || open.shown !== open.message)
  const shown = hasBegunAgain && isBeginning(message, open.shown) ? open.shown : message
  return only({ ...view, open: { attempt, next: index + count, chunks, message, shown } })
}

/** Whether `of` begins with all that `message` says, and says more. */
function isBeginning(message: Message, of: Message): boolean {
  const [words, all] = [wordsOf(message), wordsOf(of)]
  return words !== all && all.startsWith(words)
}

/** What a message says, in order: texts, URLs and which tools it calls. Ignores the progress of tools and the content of other parts. Only
 *  texts can still grow. A line break ends every other part, so that the tool `loo` is not taken for the beginning of `look`. */
function wordsOf({ parts }: Message): string {
  return parts
    .map(
      (part) => part.type + ((part['text'] ?? `${(part['toolName'] ?? part['url']) as string}\n`) as string),
    )
    .join()
}

/** The reply of this turn, if only users have written since. */
function replyOf({ log }: View, turn: string): Message | undefined {
  const last = log.findLast((message) => message.turn !== undefined)
  return last?.turn === turn ? last : undefined
}

/** Undefined if the chunks do not fit together. */
function assembled({ id, message, agent }: Turn, chunks: readonly Chunk[]): Message | undefined {
  const assembler = createAssembler(message)
  try {
    chunks.forEach(assembler.push)
  } catch {
    return undefined
  }
  const author: Author = { kind: 'agent', id: agent }
  return { ...assembler.message(), id: message, seq: null, delivery: 'open', author, turn: id }
}

function takeAck(view: View, { id, seq, turn, epoch = 0 }: Ack): Step {
  const before = view.asked
  const isNews = epoch > (before?.epoch ?? 0) || (epoch === before?.epoch && !before.turn)
  const asked = isNews && epoch > 0 ? { turn, epoch } : before
  const row = view.rows.find((row) => row.id === id)
  if (row && seq <= view.base) return withoutRows({ ...view, asked }, new Map([[id, seq]])) // it is an older one, not loaded
  if (!row || seq <= view.head) return only({ ...view, asked }) // its item came before, or its history is gone
  const rows = view.rows.map((other) => (other === row ? { ...row, delivery: 'sent' as const, seq } : other))
  return { view: { ...view, asked, rows }, effects: row.seq === null ? [{ type: 'sent', id, seq }] : [] }
}

function forget({ rows, version }: View, to: number): View {
  return {
    ...EMPTY,
    version: version + 1,
    base: to,
    head: to,
    rows: rows.map((row) => (isFailed(row) ? row : unsent(row))),
  }
}

function erase(view: View, seqs: ReadonlySet<number>): View {
  const erased = ({ metadata: _metadata, ...message }: Message): Message => ({
    ...message,
    parts: [],
    author: { kind: message.author.kind },
    erased: true,
  })
  const log = view.log.map((message) => (seqs.has(message.seq ?? 0) ? erased(message) : message))
  return { ...view, log, version: view.version + 1 }
}

function retried(view: View, id: string): View {
  const row = view.rows.find((row) => row.id === id && isFailed(row))
  if (!row) return view
  return { ...view, rows: [...view.rows.filter((other) => other !== row), unsent(row)] }
}

function withRow(view: View, id: string, change: (row: Message) => Message): View {
  return { ...view, rows: view.rows.map((row) => (row.id === id ? change(row) : row)) }
}

function rowOf(message: UiMessage): Message {
  return { ...message, seq: null, delivery: 'pending', author: { kind: 'user' } }
}

function unsent(row: Message): Message {
  const { refusal, ...kept } = row
  return { ...(refusal ? kept : row), delivery: 'pending', seq: null }
}

function isFailed({ delivery }: Message): boolean {
  return delivery === 'failed'
}

/** The open reply will be sent again from its first chunk. Until then, what is here stays. */
function missed(view: View): Step {
  return { view: { ...view, open: view.open && { ...view.open, next: 0 } }, effects: [{ type: 'ask' }] }
}

function only(view: View): Step {
  return { view, effects: [] }
}
