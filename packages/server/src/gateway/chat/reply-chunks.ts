// One reply of a session as a stream of the AI SDK's UI message chunks. Frames of the session go in, chunks come out. Pure. Guarantees:
//   D4   the chunks, put together, are the message that is stored
//   D6   the stream ends well only if the turn has ended; otherwise it is cut, so that the client can resume
//
//   frame                                        what is sent
//   chunks, the next ones of this attempt        these chunks, without `finish`
//   chunks from the first one, known ones before the new ones
//   chunks of another attempt                    nothing was shown: these chunks. Only one step was shown, and the client knows it:
//                                                `reset-step` and these chunks. Otherwise: the stream is cut
//   the message of this turn                     what is missing of it; if that cannot be sent, the stream is cut. If nothing was
//                                                shown: all of it, as near as chunks can say it. If the reply was stopped or failed
//                                                before its last words were stored: `reset-step` and the last step as it is stored; a
//                                                client that does not know that keeps the words until it loads the messages
//   the end of this turn                         done: `finish`; stopped: `abort`; failed: `error`
//   any other                                    nothing
import {
  chunkOf,
  condense,
  createAssembler,
  extend,
  mergeDeltas,
  type Chunk,
  type Frame,
  type Item,
  type Part,
  type Turn,
} from '@fleetline/protocol'
import { createSentChunks } from './sent-chunks.ts'

export type ReplyChunks = {
  readonly take: (frame: Frame) => SentPiece
}
/** `end`: nothing follows. `cut`: the connection must break, because the reply goes on. */
export type SentPiece = { readonly chunks: readonly Chunk[]; readonly end?: 'whole' | 'cut' }
type Options = {
  /** The turn that writes it. */
  readonly turn: string
  /** The id of the message. */
  readonly message: string
  /** The client knows `reset-step`. */
  readonly knowsReset: boolean
}

const NOTHING: SentPiece = { chunks: [] }
const CUT: SentPiece = { chunks: [], end: 'cut' }

export function createReplyChunks({ turn, message, knowsReset }: Options): ReplyChunks {
  const shown = createShown(message)
  let [attempt, next, finish]: [number, number, Chunk | undefined] = [0, 0, undefined]
  let item: Item | undefined
  const skipped = new Set<string>() // of another attempt: the message and its first step have begun already
  let sent = createSentChunks() // of this attempt
  const send = (chunks: readonly Chunk[]): Chunk[] => {
    sent.push(chunks)
    finish = chunks.find(isFinish) ?? finish
    return shown.push(
      chunks.flatMap((chunk) => {
        if (isFinish(chunk)) return []
        return skipped.delete(chunk.type) ? metadataOf(chunk) : [chunk]
      }),
    )
  }
  const begin = (chunks: readonly Chunk[]): SentPiece => {
    finish = undefined
    sent = createSentChunks()
    if (shown.isEmpty()) return { chunks: send(chunks) }
    if (!knowsReset || shown.steps() > 1) return CUT
    skipped.add('start')
    if (shown.steps() > 0) skipped.add('start-step')
    return { chunks: [...shown.push([{ type: 'reset-step' }]), ...send(chunks)] }
  }
  const takeChunks = (frame: Extract<Frame, { readonly type: 'chunks' }>): SentPiece => {
    const end = frame.index + frame.count
    if (item || frame.attempt < attempt || (frame.attempt === attempt && end <= next)) return NOTHING
    if (frame.attempt > attempt) {
      if (frame.index !== 0) return CUT
      ;[attempt, next] = [frame.attempt, end]
      return begin(frame.chunks)
    }
    const isNext = frame.index === next
    if (!isNext && frame.index !== 0) return CUT
    next = end
    return isNext ? { chunks: send(frame.chunks) } : again(frame.chunks)
  }
  /** The same chunks as before, merged otherwise, and new ones. */
  const again = (chunks: readonly Chunk[]): SentPiece => {
    const more = sent.findNew(mergeDeltas(chunks))
    return more ? { chunks: send(more) } : CUT
  }
  const takeItem = (stored: Item): SentPiece => {
    item = stored
    if (stored.status !== undefined && shown.hasMoreThan(stored))
      return { chunks: (knowsReset && shown.sayStepAgain(stored)) || [] }
    const isEmpty = shown.isEmpty()
    const more = shown.extend(stored) ?? (isEmpty ? shown.all(stored) : undefined)
    return more ? { chunks: more } : CUT
  }
  const takeEnd = ({ state, error, attempt: last }: Turn): SentPiece => {
    const begun = shown.push([])
    const end: Chunk = (last === attempt && finish) || { type: 'finish' } // otherwise it is that of an attempt that was lost
    if (state === 'done') return { chunks: [...begun, end], end: 'whole' }
    if (state === 'stopped') return { chunks: [...begun, { type: 'abort' }], end: 'whole' }
    return {
      chunks: [...begun, { type: 'error', errorText: error?.message ?? 'The reply has failed.' }],
      end: 'whole',
    }
  }
  return {
    take: (frame) => {
      if (frame.type === 'chunks' && frame.turn === turn) return takeChunks(frame)
      if (frame.type === 'turn' && frame.turn.id === turn && frame.turn.endedAt !== null)
        return takeEnd(frame.turn)
      if (frame.type === 'gap') return CUT
      const stored = frame.type === 'messages' ? frame.items.find((one) => one.turn === turn) : undefined
      return stored ? takeItem(stored) : NOTHING
    },
  }
}

type Stored = Pick<Item, 'parts' | 'metadata'>

/** What the client has. The first chunk that it gets is `start`, with the id of the message. */
function createShown(message: string) {
  const [assembler, ids] = [createAssembler(message), new Map<number, string>()]
  let [hasStarted, steps] = [false, 0]
  const keep = (chunk: Chunk) => {
    assembler.push(chunk)
    if (chunk.type === 'start-step') steps += 1
    if (chunk.type === 'text-start' || chunk.type === 'reasoning-start')
      ids.set(assembler.length() - 1, chunk.id)
  }
  const start = (chunks: readonly Chunk[]): Chunk[] => {
    if (hasStarted) return [...chunks]
    hasStarted = true
    return chunks[0]?.type === 'start' ? [...chunks] : [{ type: 'start', messageId: message }, ...chunks]
  }
  return {
    steps: () => steps,
    isEmpty: () => assembler.length() === 0 && assembler.message().metadata === undefined,
    push: (chunks: readonly Chunk[]): Chunk[] => {
      chunks.forEach(keep)
      return start(chunks)
    },
    /** All of it, as near as chunks can say it. Nothing may follow but the end. */
    all: (stored: Item): Chunk[] => {
      const [first, ...rest] = condense(stored).map(chunkOf)
      return start([...metadataOf(first!), ...rest])
    },
    extend: (stored: Stored): Chunk[] | undefined => {
      const chunks = extend(assembler, stored, ids)
      return chunks && start(chunks)
    },
    /** Whether the stored reply is a beginning of what the client has. */
    hasMoreThan: ({ parts }: Stored): boolean => {
      const has = assembler.message().parts
      const isLonger = has.length > parts.length || lengthOf(has.at(-1)) > lengthOf(parts.at(-1))
      return isLonger && parts.length > 0 && parts.every((part, index) => isBeginning(part, has[index]))
    },
    /** The last step as it is stored. Undefined: an earlier step differs, too. */
    sayStepAgain: (stored: Stored): Chunk[] | undefined => {
      const reset: Chunk = { type: 'reset-step' }
      keep(reset)
      const chunks = extend(assembler, stored, ids)
      return chunks && start([reset, ...chunks])
    },
  }
}

function lengthOf(part: Part | undefined): number {
  return typeof part?.['text'] === 'string' ? part['text'].length : 0
}

/** Whether a stored part may be what another one was before more was said. A call that was open is stored as failed. */
function isBeginning({ type, toolCallId, text }: Part, of: Part | undefined): boolean {
  if (of?.type !== type || of['toolCallId'] !== toolCallId) return false
  return typeof text !== 'string' || String(of['text']).startsWith(text)
}

/** What a `start` says besides that the message begins. */
function metadataOf(chunk: Chunk): Chunk[] {
  const given = chunk.type === 'start' ? chunk.messageMetadata : undefined
  return given == null ? [] : [{ type: 'message-metadata', messageMetadata: given }]
}

function isFinish({ type }: Chunk): boolean {
  return type === 'finish'
}
