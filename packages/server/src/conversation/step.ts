// Decides what a conversation does next. Pure: session/append.ts reads the state under the session's lock and stores the
// result in the same transaction. Guarantees:
//   E2  the epoch never falls: it grows by one when a turn starts and by one when a live turn is stopped, and never
//       otherwise; an event that does both moves it by two
//   E3  there is at most one live turn, and no turn starts while a compaction runs. Limit: pods of a release without compaction do
//       start one
//   E4  no wake-up is lost: while `asked` is greater than `answered`, a turn is live, or starts when the compaction has ended
//
//   state       event                                becomes
//   idle        asked                                working: a turn starts
//   working     asked                                working: the live turn reads the message, or the next one answers it
//   working     the live turn ended and has read     idle
//               everything that was asked
//   working     the same, and the conversation is    compacting: the epoch does not change
//               long enough
//   working     the live turn ended, and more was    working: the next turn starts
//               asked
//   working     the live turn was stopped            idle: everything asked until then counts as answered; the agent
//                                                    reads it when it replies to the next message
//   idle        a reply is written anew, or a      working: a turn starts; what leaves the conversation counts as answered
//               message is edited
//   working     the same                             working: the live turn is stopped, and the next one starts
//   compacting  the same                             unchanged: fenced
//   compacting  asked                                compacting: a turn answers when the compaction has ended
//   compacting  the compaction ended, or failed      idle; working if anything was asked meanwhile
//   compacting  the compaction ended, more is left   compacting again, if nothing was asked meanwhile
//   any         another turn ended or was stopped,   unchanged: fenced
//               or one of another epoch
//   any         the end of another compaction        unchanged: fenced
// A pod of a release without compaction may have started a turn while the conversation is compacted. That turn ends as always, but
// neither a turn nor a compaction starts until the compaction has ended.

export type Conversation = {
  readonly epoch: number
  /** The live turn. Null: idle, or compacting. */
  readonly turn: string | null
  /** The compaction under way. */
  readonly compacting: string | null
  /** The last seq that asks for a reply. */
  readonly asked: number
  /** The last seq that an ended turn has read. A stopped turn counts as having read everything. */
  readonly answered: number
}

/** A turn and its epoch. It is the live turn only while the conversation is still in this epoch. */
export type LiveTurn = { readonly turn: string; readonly epoch: number }

/** `newId` is the id of the next turn or compaction, if one starts. */
export type ConversationEvent = { readonly newId: string } & (
  | { readonly type: 'asked'; readonly seq: number }
  /** `isLong`: long enough to be compacted. */
  | ({ readonly type: 'ended'; readonly readTo: number; readonly isLong?: boolean } & LiveTurn)
  /** `isPartial`: it could not cover all messages, so another one follows. */
  | { readonly type: 'compacted'; readonly compaction: string; readonly isPartial?: boolean }
  | ({ readonly type: 'stopped'; readonly head: number } & LiveTurn)
  /** A turn starts, even if nothing new was asked. `answered`: the seq up to which everything counts as answered now. */
  | ({
      readonly type: 'rewritten'
      readonly epoch: number
      readonly answered?: number
      readonly asked?: number
    } & Partial<Pick<TurnStart, 'readFrom' | 'askedFrom'>>)
)

export type TurnStart = {
  readonly turn: string
  readonly epoch: number
  /** The first seq that no turn has read. */
  readonly readFrom: number
  /** The seq of the first message that may ask for this reply. The messages from `readFrom` to here do not ask, so the window may
   *  leave them out. */
  readonly askedFrom: number
}

export type Stepped =
  | {
      readonly type: 'stepped'
      readonly state: Conversation
      readonly starts?: TurnStart
      /** The compaction that starts. */
      readonly compacts?: string
    }
  | { readonly type: 'fenced' }

export function step(state: Conversation, event: ConversationEvent): Stepped {
  if (event.type === 'asked') {
    const asked = { ...state, asked: event.seq }
    return isFree(state) ? start(asked, event.newId, event.seq) : { type: 'stepped', state: asked }
  }
  if (event.type === 'compacted') {
    if (state.compacting !== event.compaction) return { type: 'fenced' }
    const after = next({ ...state, compacting: null }, event.newId)
    return event.isPartial ? compact(after, event.newId) : after
  }
  if (event.type === 'rewritten') return rewrite(state, event)
  if (state.turn !== event.turn || state.epoch !== event.epoch) return { type: 'fenced' }
  if (event.type === 'stopped')
    return { type: 'stepped', state: { ...state, turn: null, epoch: state.epoch + 1, answered: event.head } }
  const ended = next({ ...state, turn: null, answered: Math.max(state.answered, event.readTo) }, event.newId)
  return event.isLong ? compact(ended, event.newId) : ended
}

function rewrite(
  state: Conversation,
  event: Extract<ConversationEvent, { readonly type: 'rewritten' }>,
): Stepped {
  const { newId, epoch, asked = state.asked, answered = state.answered, readFrom } = event
  if (state.epoch !== epoch || state.compacting !== null) return { type: 'fenced' }
  const askedFrom = event.askedFrom ?? (state.asked > state.answered ? state.answered + 1 : asked)
  const stopped = state.turn === null ? epoch : epoch + 1
  const started = start(
    { ...state, epoch: stopped, asked, answered: Math.max(state.answered, answered) },
    newId,
    askedFrom,
  )
  return readFrom === undefined ? started : { ...started, starts: { ...started.starts!, readFrom } }
}

/** A turn starts if something was asked that no turn has read. */
function next(state: Conversation, turn: string): Stepped {
  const isDue = isFree(state) && state.asked > state.answered
  return isDue ? start(state, turn, state.answered + 1) : { type: 'stepped', state }
}

/** A compaction starts if the conversation would be idle. */
function compact(stepped: Stepped, compaction: string): Stepped {
  if (stepped.type === 'fenced' || !isFree(stepped.state)) return stepped
  return { ...stepped, state: { ...stepped.state, compacting: compaction }, compacts: compaction }
}

function isFree({ turn, compacting }: Conversation): boolean {
  return turn === null && compacting === null
}

function start(
  state: Conversation,
  turn: string,
  askedFrom: number,
): Extract<Stepped, { readonly type: 'stepped' }> {
  const epoch = state.epoch + 1
  return {
    type: 'stepped',
    state: { ...state, turn, epoch },
    starts: { turn, epoch, readFrom: state.answered + 1, askedFrom },
  }
}

/** The epoch of the last turn that has ended. */
export function endedEpoch({ turn, epoch }: Pick<Conversation, 'turn' | 'epoch'>): number {
  return turn === null ? epoch : epoch - 1
}
