// Decides what a conversation does next. Pure: session/append.ts reads the state under the session's lock and stores the
// result in the same transaction. Guarantees:
//   E2  the epoch never falls: it grows by one when a turn starts and by one when a live turn is stopped, and never
//       otherwise
//   E3  there is at most one live turn, and none while the conversation is compacted
//   E4  no wake-up is lost: while `asked` is greater than `answered`, a turn is live, or starts when the compaction has ended
//
//   state     event                                becomes
//   idle      asked                                working: a turn starts
//   working   asked                                working: the live turn reads the message, or the next one answers it
//   working   the live turn ended and has read     idle; or compacting, if the end says that the conversation is long
//             everything that was asked              enough: the epoch stays
//   working   the live turn ended, and more was    working: the next turn starts
//             asked
//   working   the live turn was stopped            idle: everything asked until then counts as answered; the agent
//                                                  reads it when it replies to the next message
//   compacting  asked                              compacting: a turn answers when the compaction has ended
//   compacting  the compaction ended, or failed    idle; working if anything was asked meanwhile
//   any       another turn ended or was stopped,   unchanged: fenced
//             or one of another epoch; another
//             compaction ended

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

/** `newTurn` is the id of the next turn or compaction, if one starts. */
export type ConversationEvent = { readonly newTurn: string } & (
  | { readonly type: 'asked'; readonly seq: number }
  /** `isLong`: long enough to be compacted. */
  | ({ readonly type: 'ended'; readonly readTo: number; readonly isLong?: boolean } & LiveTurn)
  | { readonly type: 'compacted'; readonly compaction: string }
  | ({ readonly type: 'stopped'; readonly head: number } & LiveTurn)
)

export type TurnStart = {
  readonly turn: string
  readonly epoch: number
  /** The first seq that no turn has read. */
  readonly readFrom: number
  /** The first seq that may ask for this reply. Messages before it asked for none. */
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
    const isFree = state.turn === null && state.compacting === null
    return isFree ? start(asked, event.newTurn, event.seq) : { type: 'stepped', state: asked }
  }
  if (event.type === 'compacted') {
    if (state.compacting !== event.compaction) return { type: 'fenced' }
    return next({ ...state, compacting: null }, event.newTurn)
  }
  if (state.turn !== event.turn || state.epoch !== event.epoch) return { type: 'fenced' }
  if (event.type === 'stopped')
    return { type: 'stepped', state: { ...state, turn: null, epoch: state.epoch + 1, answered: event.head } }
  const ended = next({ ...state, turn: null, answered: event.readTo }, event.newTurn)
  if (!event.isLong || ended.type === 'fenced' || ended.starts) return ended
  return { ...ended, state: { ...ended.state, compacting: event.newTurn }, compacts: event.newTurn }
}

/** A turn starts if something was asked that no turn has read. A pod of the release before may have started one already. */
function next(state: Conversation, turn: string): Stepped {
  const isDue = state.turn === null && state.asked > state.answered
  return isDue ? start(state, turn, state.answered + 1) : { type: 'stepped', state }
}

function start(state: Conversation, turn: string, askedFrom: number): Stepped {
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
