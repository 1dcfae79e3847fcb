// A session as a stream of AG-UI runs. Frames of the session go in, events come out. Pure. Guarantees:
//   D1  a reader that puts the events together as AG-UI's client does has the messages of the conversation
//   D6  a run ends well only if its turn has ended well
//
//   frame                                  events
//   messages of people                     a run that only carries them, as its `input`; during a reply, after it
//   turn, live                             RUN_STARTED
//   chunks                                 those of the reply
//   chunks of another attempt              RUN_ERROR `restarted`, RUN_STARTED, a snapshot without the words of the attempt before
//   turn, ended                            done: RUN_FINISHED; stopped: RUN_FINISHED, cancelled; failed: RUN_ERROR
//   a reply that nobody has seen growing   a whole run
//   replaced or erased messages; a gap     a snapshot
// A reader that comes back in the middle of a reply gets RUN_ERROR `resumed`, a snapshot, and the reply from its beginning.
// A message that a reader has already is never streamed again, because AG-UI would append it: it is restated in a snapshot, or it comes as
// `input`, which adds only messages whose id is new.
import {
  chunkOf,
  condense,
  isWithin,
  type Chunk,
  type Frame,
  type Item,
  type SeqRange,
  type Turn,
} from '@fleetline/protocol'
import { createChunksToEvents, type ChunksToEvents } from '../../ag-ui/chunks-to-events.ts'
import type { AgUiEvent } from '../../ag-ui/parse-event.ts'
import { messagesForReader } from '../../ag-ui/messages.ts'
import { createReaderMessages, type ReaderMessages } from '../../ag-ui/reader-messages.ts'
import { usageOf } from '../../ag-ui/usage.ts'
import type { AgUiCursor } from './cursor.ts'
import { createReplyChunks, type ReplyChunks } from '../chat/reply-chunks.ts'

/** What the reader is sent, in order. */
export type FeedStep =
  | AgUiEvent
  /** The conversation below this seq, without these ranges. */
  | { readonly type: 'snapshot'; readonly before: number; readonly without: readonly SeqRange[] }
  /** The connection must break, so that the reader comes back. */
  | { readonly type: 'cut' }

const VERSION = '1.0'
const [MOST_SENT_TURNS, MOST_WAITING] = [64, 64]
const FAILED = { code: 'failed', message: 'The reply has failed.' }
const UNKNOWN = { code: 'unknown', message: 'How this reply ended is not known.' }
/** A reader in the middle of a run cannot begin another one before it has ended. */
const CUT = { code: 'resumed', message: 'The connection was cut. The reply is sent again.' }

type Run = {
  turn: Turn
  readonly reply: ReplyChunks
  readonly writer: ChunksToEvents
  readonly readerMessages: ReaderMessages
  /** The reader may have words of this reply from before. */
  readonly isAgain: boolean
  /** As it is stored. */
  item?: Item
}
type End = 'success' | 'cancelled' | NonNullable<Turn['error']>
type Frames = { readonly [Type in Frame['type']]: Extract<Frame, { readonly type: Type }> }

type Start = {
  /** The id of the session. */
  readonly thread: string
  /** The reader has the conversation up to there. */
  readonly seq: number
  /** Where it was cut. If not between messages, it may also have a part of the reply that comes first. */
  readonly resumed: AgUiCursor['where']
  /** Makes a text that no other feed of this session makes. */
  readonly mark: () => string
}

export class AgUiFeed {
  readonly #thread: string
  /** Makes a text that no other feed of this session makes. */
  readonly #mark: () => string
  #seq: number
  /** The reader has messages that it should not have. */
  #isStale = false
  /** More than 64 messages arrived during a reply. The rest were dropped, and a snapshot after the reply restores them. */
  #hasDropped = false
  #waiting: Item[] = []
  #run: Run | undefined
  /** The last turns whose whole replies were sent as a run. */
  readonly #sentTurns = new Set<string>()

  /** The reader has a part of the reply that comes first. */
  #isResumed: boolean
  /** It is in the middle of a run. */
  readonly #isOpen: boolean

  constructor({ thread, seq, resumed, mark }: Start) {
    this.#thread = thread
    this.#seq = seq
    this.#isResumed = resumed !== 'between'
    this.#isOpen = resumed === 'run'
    this.#mark = mark
  }

  /** The last seq that the reader has been told about. */
  get seq(): number {
    return this.#seq
  }

  /** Whether the reader has a part of a reply. If it comes back, it must begin with a snapshot. */
  get isInside(): boolean {
    return this.#run !== undefined
  }

  /** Gives the reader the conversation as it is. `live`: the turn that is live; `seq` is then not beyond the messages that it answers. */
  begin(live?: Turn): FeedStep[] {
    this.#isStale = true
    const cut = this.#isOpen ? [this.#endRun('', CUT)] : []
    return [...cut, ...(live ? this.#open(live) : this.#settle())]
  }

  take(frame: Frame): FeedStep[] {
    switch (frame.type) {
      case 'messages':
        return [...frame.items.flatMap((item) => this.#takeItem(item)), ...this.#settle()]
      case 'turn':
        return frame.turn.endedAt === null ? this.#open(frame.turn) : this.#end(frame.turn)
      case 'chunks':
        return this.#takeChunks(frame)
      case 'erased':
        this.#forget((seq) => frame.seqs.includes(seq))
        return this.#settle()
      case 'gap':
        return this.#startOver()
    }
  }

  #takeItem(item: Item): FeedStep[] {
    this.#seq = item.seq
    const { turn, replaces, parts } = item
    if (turn !== undefined && this.#run?.turn.id === turn) return this.#takeReply(this.#run, item)
    const lost = turn === undefined ? [] : this.#lose()
    if (replaces) this.#forget((seq) => isWithin(seq, replaces))
    if (parts.length === 0) return lost // erased, or not for this reader
    if (turn !== undefined) return [...lost, ...this.#tellWhole(item, turn)]
    this.#wait(item)
    if (this.#run && mayAnswer(this.#run, item)) this.#isStale = true
    return this.#run ? this.#snapshotIfStale() : []
  }

  #wait(item: Item): void {
    if (this.#run && this.#waiting.length === MOST_WAITING) this.#hasDropped = true
    else this.#waiting.push(item)
  }

  /** Messages that have left the conversation. */
  #forget(isGone: (seq: number) => boolean): void {
    this.#waiting = this.#waiting.filter(({ seq }) => !isGone(seq))
    this.#isStale = true
  }

  /** What is missing of the reply that the reader has seen growing. */
  #takeReply(run: Run, item: Item): FeedStep[] {
    run.item = item
    const sent = run.reply.take({
      type: 'messages',
      session: run.turn.session,
      items: [item],
      head: item.seq,
    })
    return say(run, sent.chunks)
  }

  #tellWhole(item: Item, turn: string): FeedStep[] {
    const run = {
      writer: createChunksToEvents(item.id, this.#isResumed ? this.#mark() : ''),
      readerMessages: createReaderMessages(),
    }
    if (this.#isResumed && item.parts.some(({ type }) => type === 'reasoning')) this.#isStale = true
    this.#isResumed = false
    const started = this.#startRun(turn)
    const said = [...say(run, condense(item).map(chunkOf)), ...endSaying(run)]
    if (!run.readerMessages.areLike(messagesForReader(item))) this.#isStale = true
    this.#remember(turn)
    return [started, ...said, ...this.#snapshotIfStale(), this.#endRun(turn, outcomeOf(item), item)]
  }

  #open(turn: Turn): FeedStep[] {
    if (this.#run?.turn.id === turn.id) {
      this.#run.turn = turn
      return []
    }
    const lost = this.#lose()
    if (turn.replaces) this.#isStale = true
    this.#run = this.#runOf(turn, this.#isResumed)
    return [...lost, this.#startRun(turn.id), ...this.#snapshotIfStale()]
  }

  #takeChunks(frame: Frames['chunks']): FeedStep[] {
    const run = this.#run
    if (run?.turn.id !== frame.turn) return []
    const sent = run.reply.take(frame)
    if (sent.end !== 'cut') return say(run, sent.chunks)
    if (frame.index !== 0) return [{ type: 'cut' }]
    this.#isStale = true
    const next = this.#runOf(run.turn, true)
    this.#run = next
    return [
      this.#endRun(run.turn.id, { code: 'restarted', message: 'The reply begins again.' }),
      this.#startRun(run.turn.id),
      ...this.#snapshotIfStale(),
      ...say(next, next.reply.take(frame).chunks),
    ]
  }

  #end(turn: Turn): FeedStep[] {
    const run = this.#run
    const { id, state, error } = turn
    const failed = { ...FAILED, ...error }
    if (run?.turn.id !== id) {
      const isNew = run === undefined && state === 'failed' && !this.#sentTurns.has(id)
      return isNew ? [this.#startRun(id), this.#endRun(id, failed)] : []
    }
    const said = endSaying(run)
    const wanted = run.item ? messagesForReader(run.item) : []
    const isUnreplaced = run.turn.replaces !== undefined && run.item === undefined
    const hasLeftovers = run.isAgain && wanted.some(({ role }) => role === 'reasoning')
    if (isUnreplaced || hasLeftovers || !run.readerMessages.areLike(wanted)) this.#isStale = true
    this.#run = undefined
    this.#isStale ||= this.#hasDropped
    const snapshot = this.#snapshotIfStale()
    const end = state === 'failed' ? failed : state === 'stopped' ? 'cancelled' : 'success'
    return [...said, ...snapshot, this.#endRun(id, end, run.item), ...this.#settle()]
  }

  /** Closes the open run, because another reply or a gap comes before the end of its turn has arrived. In a page of the log, messages come
   *  before the ends of turns. */
  #lose(): FeedStep[] {
    const run = this.#run
    if (!run) return []
    const { item, turn } = run
    const said = endSaying(run)
    this.#run = undefined
    this.#isStale = true
    if (!item) return [...said, this.#endRun(turn.id, UNKNOWN)]
    this.#remember(turn.id)
    return [...said, this.#endRun(turn.id, outcomeOf(item), item)]
  }

  #remember(turn: string): void {
    this.#sentTurns.add(turn)
    if (this.#sentTurns.size > MOST_SENT_TURNS) this.#sentTurns.delete(this.#sentTurns.values().next().value!)
  }

  #startOver(): FeedStep[] {
    const lost = this.#lose()
    this.#waiting = []
    this.#seq = 0
    this.#isStale = true
    return [...lost, ...this.#settle()]
  }

  /** What waits for the end of a reply. */
  #settle(): FeedStep[] {
    if (this.#run || (!this.#isStale && this.#waiting.length === 0)) return []
    return this.#wrapInRun(this.#snapshotIfStale())
  }

  /** A run of its own, for what belongs to no reply. */
  #wrapInRun(steps: readonly FeedStep[]): FeedStep[] {
    const id = `log-${this.#seq}`
    return [this.#startRun(id), ...steps, this.#endRun(id, 'success')]
  }

  /** Not while a reply is shown: a snapshot would take it away. */
  #snapshotIfStale(): FeedStep[] {
    const isShown = this.#run !== undefined && this.#run.readerMessages.messages().length > 0
    return this.#isStale && !isShown ? [this.#snapshot()] : []
  }

  /** During a reply, messages that it does not answer wait for its end. */
  #snapshot(): FeedStep {
    const run = this.#run
    this.#isStale = false
    if (!run) this.#hasDropped = false
    this.#waiting = this.#waiting.filter((item) => run && !mayAnswer(run, item))
    const before = this.#waiting[0]?.seq ?? this.#seq + 1
    return { type: 'snapshot', before, without: run?.turn.replaces ?? [] }
  }

  #runOf(turn: Turn, isAgain: boolean): Run {
    const { id, message } = turn
    this.#isResumed = false
    return {
      turn,
      isAgain,
      reply: createReplyChunks({ turn: id, message, knowsReset: false }),
      writer: createChunksToEvents(message, isAgain ? this.#mark() : ''),
      readerMessages: createReaderMessages(),
    }
  }

  /** Carries the messages that wait. */
  #startRun(runId: string): AgUiEvent {
    const threadId = this.#thread
    const waiting = this.#isStale ? [] : this.#waiting.splice(0) // a snapshot follows
    const messages = waiting.flatMap(messagesForReader)
    const input = { threadId, runId, messages, tools: [], context: [] }
    return {
      type: 'RUN_STARTED',
      threadId,
      runId,
      protocolVersion: VERSION,
      ...(messages.length > 0 && { input }),
    }
  }

  #endRun(runId: string, end: End, item?: Item): AgUiEvent {
    const usage = item && usageOf(item)
    if (typeof end === 'object') return { type: 'RUN_ERROR', ...end, ...(usage && { usage }) }
    return {
      type: 'RUN_FINISHED',
      threadId: this.#thread,
      runId,
      outcome: { type: end },
      ...(usage && { usage }),
    }
  }
}

/** Whether the turn may answer this message. It does not if it had read the conversation before. */
function mayAnswer({ turn: { answers } }: Run, { seq }: Item): boolean {
  return answers.to === null || seq <= answers.to
}

function outcomeOf({ status }: Item): End {
  if (status === undefined) return 'success'
  return status === 'failed' ? FAILED : 'cancelled'
}

type Speaking = Pick<Run, 'writer' | 'readerMessages'>

function say({ writer, readerMessages }: Speaking, chunks: readonly Chunk[]): AgUiEvent[] {
  const events = chunks.flatMap(writer.write)
  events.forEach(readerMessages.take)
  return events
}

function endSaying({ writer, readerMessages }: Speaking): AgUiEvent[] {
  const events = writer.close()
  events.forEach(readerMessages.take)
  return events
}
