// The stream that answers a message: waits for the turn that answers it, and shows the reply of that turn. Pure. Frames must come from the
// message's seq on, or from any later one before the turn has ended.
import { isWithin, type Frame, type Item, type Turn } from '@fleetline/protocol'
import { createReplyChunks, type SentPiece, type ReplyChunks } from './reply-chunks.ts'

type Options = {
  readonly seq: number
  /** The turn, if it is known. */
  readonly turn?: Pick<Turn, 'id' | 'message'>
  /** The client knows `reset-step`. */
  readonly knowsReset: boolean
}

const NOTHING: SentPiece = { chunks: [] }
/** Another reply was stopped, and the message counts as answered. */
const STOPPED: SentPiece = { chunks: [{ type: 'abort' }], end: 'whole' }
const GONE: SentPiece = {
  chunks: [
    {
      type: 'error',
      errorText: 'This message was replaced before it was answered. Load the conversation again.',
    },
  ],
  end: 'whole',
}

export function createAnswerChunks({ seq, turn, knowsReset }: Options): ReplyChunks {
  const replyOf = ({ id, message }: Pick<Turn, 'id' | 'message'>) =>
    createReplyChunks({ turn: id, message, knowsReset })
  let reply = turn && replyOf(turn)
  let stored: Item | undefined // the reply, if it comes before its turn
  const find = (frame: Frame): SentPiece => {
    if (frame.type === 'messages') {
      stored ??= frame.items.find(({ answers }) => answers !== undefined && answers >= seq)
      const isGone = frame.items.some(({ replaces }) => isWithin(seq, replaces))
      return isGone ? GONE : NOTHING
    }
    if (frame.type !== 'turn') return NOTHING
    if (!doesAnswer(frame.turn, seq)) return isWithin(seq, frame.turn.replaces) ? GONE : NOTHING
    if (frame.turn.state === 'stopped') return STOPPED
    reply = replyOf(frame.turn)
    const said = stored
      ? reply.take({ ...frame, type: 'messages', items: [stored], head: stored.seq })
      : NOTHING
    if (said.end) return said
    const more = reply.take(frame)
    return { ...more, chunks: [...said.chunks, ...more.chunks] }
  }
  return { take: (frame) => (reply ? reply.take(frame) : find(frame)) }
}

/** Until `to` is set, nobody knows whether the turn has room for this message. `to` arrives before the first chunk. */
function doesAnswer({ answers: { from, to } }: Turn, seq: number): boolean {
  return from <= seq && to !== null && to >= seq
}
