// What followers of a session get while an agent replies.
import {
  createAssembler,
  hasContent,
  mergeDeltas,
  type Chunk,
  type Frame,
  type Id,
  type Item,
  type Turn,
} from '@fleetline/protocol'
import { draftOfSaid } from '../../src/session/partial.ts'

/** The chunks of an agent's stream that readers get to see. */
export function seenOf(stream: readonly Chunk[], message: Id<'message'>): Chunk[] {
  const end = stream.findIndex(({ type }) => type === 'finish')
  const shown = stream
    .slice(0, end < 0 ? undefined : end + 1)
    .filter(({ type }) => type !== 'error' && type !== 'abort')
    .map((chunk) => (chunk.type === 'start' ? { ...chunk, messageId: message } : chunk))
  const assembler = createAssembler(message)
  return shown.filter((chunk) => {
    try {
      assembler.push(chunk)
      return true
    } catch {
      return false
    }
  })
}

type Attempt = { readonly turn: Turn; readonly attempt: number; readonly sizes: readonly number[] }

export function chunkFrames(stream: readonly Chunk[], { turn, attempt, sizes }: Attempt): Frame[] {
  const frames: Frame[] = []
  for (let [at, n] = [0, 0]; at < stream.length; n += 1) {
    const piece = stream.slice(at, at + sizes[n % sizes.length]!)
    const { id, session } = turn
    const chunks = mergeDeltas(piece)
    frames.push({ type: 'chunks', session, turn: id, attempt, index: at, count: piece.length, chunks })
    at += piece.length
  }
  return frames
}

/** What is stored of a reply. Undefined: nothing. */
export function storedReply(
  stream: readonly Chunk[],
  { state, message }: Turn,
): Pick<Item, 'parts' | 'metadata' | 'status'> | undefined {
  const said = createAssembler(message)
  stream.forEach(said.push)
  if (state === 'done') return hasContent(said.message()) ? said.message() : undefined
  const draft = draftOfSaid(said, 'a')
  const status = state === 'stopped' ? 'stopped' : 'failed'
  return draft && { ...(JSON.parse(draft.body) as Pick<Item, 'parts' | 'metadata'>), status }
}
