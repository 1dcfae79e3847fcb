// Decides what a conversation does next. Pure: session/append.ts reads the state under the session's lock and stores the
// result in the same transaction. Guarantees:
//   E2  the epoch never falls: it grows by one when a turn starts and by one when a live turn is stopped, and never
//       otherwise
//   E3  there is at most one live turn
//   E4  no wake-up is lost: while `asked` is greater than `answered`, a turn is live
//
//   state     event                                becomes
//   idle      asked                                working: a turn starts
//   working   asked                                working: the live turn reads the message, or the next one answers it
//   working   the live turn ended and has read     idle
//             everything that was asked
//   working   the live turn ended, and more was    working: the next turn starts
//             asked
//   working   the live turn was stopped            idle: everything asked until then counts as answered; the agent
//                                                  reads it when it replies to the next message
//   any       another turn ended or was stopped,   unchanged: fenced
//             or one of another epoch

export type Conversation = {
  readonly epoch: number
  /** The live turn. Null: idle. */
  readonly turn: string | null
  /** The last seq that asks for a reply. */
  readonly asked: number
  /** The last seq that an ended turn has read. A stopped turn counts as having read everything. */
  readonly answered: number
}

/** A turn and its epoch. It is the live turn only while the conversation is still in this epoch. */
export type LiveTurn = { readonly turn: string; readonly epoch: number }

/** `newTurn` is the id of the next turn, if one starts. */
export type ConversationEvent = { readonly newTurn: string } & (
  | { readonly type: 'asked'; readonly seq: number }
  | ({ readonly type: 'ended'; readonly readTo: number } & LiveTurn)
  | ({ readonly type: 'stopped'; readonly head: number } & LiveTurn)
)

export type TurnStart = { readonly turn: string; readonly epoch: number; readonly readFrom: number }

export type Stepped =
  | { readonly type: 'stepped'; readonly state: Conversation; readonly starts?: TurnStart }
  | { readonly type: 'fenced' }

export function step(state: Conversation, event: ConversationEvent): Stepped {
  if (event.type === 'asked') {
    const asked = { ...state, asked: event.seq }
    return state.turn === null ? start(asked, event.newTurn) : { type: 'stepped', state: asked }
  }
  if (state.turn !== event.turn || state.epoch !== event.epoch) return { type: 'fenced' }
  if (event.type === 'stopped')
    return { type: 'stepped', state: { ...state, turn: null, epoch: state.epoch + 1, answered: event.head } }
  const ended = { ...state, turn: null, answered: event.readTo }
  return ended.asked > ended.answered ? start(ended, event.newTurn) : { type: 'stepped', state: ended }
}

function start(state: Conversation, turn: string): Stepped {
  const epoch = state.epoch + 1
  return {
    type: 'stepped',
    state: { ...state, turn, epoch },
    starts: { turn, epoch, readFrom: state.answered + 1 },
  }
}

/** The epoch of the last turn that has ended. */
export function endedEpoch({ turn, epoch }: Pick<Conversation, 'turn' | 'epoch'>): number {
  return turn === null ? epoch : epoch - 1
}
