// What a conversation does next. Pure: session/append.ts reads the state under the session's lock, and stores what this
// answers in the same transaction. Guarantees:
//   E2  the epoch never falls: it grows by one each time a turn starts, by one when a live turn is stopped, and by nothing
//       else
//   E3  there is one live turn, or none
//   E4  no wake-up is lost: while asked is beyond answered, a turn is live
//
//   state     event                                becomes
//   idle      asked                                working: a turn starts
//   working   asked                                working: the live turn reads it, or the next one answers it
//   working   the live turn ended, and has read    idle
//             all that was asked
//   working   the live turn ended, and more was    working: the next turn starts
//             asked
//   working   the live turn was stopped            idle: all that was asked by then counts as answered; the next message is
//                                                  answered together with it
//   any       another turn ended or was stopped,   as it was: fenced
//             or one of another epoch

export type Conversation = {
  readonly epoch: number
  /** The live one; null: idle. */
  readonly turn: string | null
  /** The last seq that wants a reply. */
  readonly asked: number
  /** The last seq that an ended turn had read; one that was stopped counts as having read all. */
  readonly answered: number
}

/** The turn that is live, if the conversation is still in its epoch. */
export type LiveTurn = { readonly turn: string; readonly epoch: number }

/** `newTurn` is the id of the turn that starts, if one does. */
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
