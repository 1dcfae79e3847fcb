// The replies of a session as streams of the AI SDK's chunks. Guarantees:
//   S3   a caller gets the replies of sessions that it may see, and no others; a stream ends when that changes (S9)
//   D6   the body ends only if the turn has ended
import { PAGE_LIMITS, parseId, type Frame, type Turn } from '@fleetline/protocol'
import type { Listener } from '../../door/stream.ts'
import type { UiChunks, UiPiece } from '../../door/ui-chunks.ts'
import type { Principal } from '../../identity/principal.ts'
import type { SessionKey } from '../../session/items.ts'
import type { Sessions } from '../../session/sessions.ts'
import type { Operations } from '../operations.ts'
import { frameFor } from '../seen.ts'
import { notFound, type SessionKeys } from '../session-key.ts'
import type { SdkLevel } from './sdk-levels.ts'
import { createAnswerChunks } from './answer-chunks.ts'
import type { ReplyChunks } from './reply-chunks.ts'

export type Reply = {
  readonly headers: Readonly<Record<string, string>>
  readonly body: UiChunks
  readonly recheck: () => Promise<void>
}
/** Who reads, and which release of the AI SDK it uses. */
export type ChatReader = { readonly principal: Principal | null; readonly level: SdkLevel }
type Asked = {
  readonly seq: number
  /** A turn will answer it, even if there is none yet. */
  readonly isWaiting: boolean
}

export type ReplyStreams = {
  /** The reply to the message at a seq. */
  readonly to: (reader: ChatReader, key: SessionKey, asked: Asked) => Promise<Reply>
  /** The reply of this turn. Undefined: there is no such turn. */
  readonly ofTurn: (reader: ChatReader, key: SessionKey, turn: string) => Promise<Reply | undefined>
}
type Deps = Pick<SessionKeys, 'maySee'> & {
  readonly sessions: Pick<Sessions, 'find' | 'findTurn' | 'findAnswering' | 'findVersion' | 'read'>
  readonly operations: Pick<Operations, 'follow'>
}

export function createReplyStreams(deps: Deps): ReplyStreams {
  const { sessions, operations, maySee } = deps
  const replyOf = (
    { principal, level }: ChatReader,
    key: SessionKey,
    { seq, turn }: Shown,
    frames: Frames,
  ): Reply => ({
    headers: headersOf(seq, turn),
    body: (listener) => {
      const knowsReset = level.knowsReset
      return piecesOf(
        frames(listener),
        createAnswerChunks({ seq, knowsReset, ...(turn && { turn }) }),
        level,
        listener,
      )
    },
    recheck: async () => {
      if (!(await maySee(principal, key))) throw notFound()
    },
  })
  /** What the reader gets of a turn that is over: its message, as it is stored, and its end. */
  const overFrames = async ({ principal }: ChatReader, key: SessionKey, turn: Turn): Promise<Frame[]> => {
    const at = await sessions.findVersion(key, turn.message)
    const page = at && (await sessions.read(key, { before: at.seq + 1, limit: 1 }))
    const { session } = turn
    return [
      ...(page ? [{ type: 'messages', items: page.items, head: page.head } as const] : []),
      { type: 'turn', turn } as const,
    ].map((frame) => ({ ...frameFor(principal, frame), session }))
  }
  const show = async (
    reader: ChatReader,
    key: SessionKey,
    shown: Shown & { readonly head: number; readonly epoch: number },
  ) => {
    const { turn, head, epoch } = shown
    if (turn && turn.endedAt !== null) {
      const frames = await overFrames(reader, key, turn)
      return replyOf(reader, key, shown, () => toAsync(frames))
    }
    const following = await operations.follow(reader.principal, key, {
      seq: head,
      ended: epoch - 1,
      erased: PAGE_LIMITS.seq, // a stream of one reply says nothing of erased messages
    })
    return replyOf(reader, key, shown, async function* (listener) {
      for await (const { frame } of following(listener)) yield frame
    })
  }
  const find = async (key: SessionKey) => {
    const facts = await sessions.find(key)
    if (!facts) throw notFound()
    return facts
  }
  return {
    to: async (reader, key, { seq, isWaiting }) => {
      const { head, epoch } = await find(key) // before the turn: while it is live, its message comes after this head
      const turn = await sessions.findAnswering(key, seq)
      if (!turn && !isWaiting)
        return {
          headers: headersOf(seq, turn),
          body: () => toAsync([NOTHING]),
          recheck: async () => undefined,
        }
      return show(reader, key, { seq, turn, head, epoch: turn?.epoch ?? Math.max(1, epoch) })
    },
    ofTurn: async (reader, key, id) => {
      const { head } = await find(key)
      const turn = await sessions.findTurn(key.tenant, id)
      if (!turn || parseId('session', turn.session)?.uuid !== key.session) return undefined
      return show(reader, key, { seq: turn.answers.from, turn, head, epoch: turn.epoch })
    },
  }
}

const NOTHING: UiPiece = { chunks: [], isLast: true }

type Frames = (listener: Listener) => AsyncIterable<Frame>
type Shown = { readonly seq: number; readonly turn: Turn | undefined }

function headersOf(seq: number, turn: Turn | undefined): Record<string, string> {
  return {
    'x-fleetline-seq': String(seq),
    ...(turn && { 'x-fleetline-turn': turn.id, 'x-fleetline-epoch': String(turn.epoch) }),
  }
}

async function* toAsync<One>(list: readonly One[]): AsyncGenerator<One> {
  yield* list
}

async function* piecesOf(
  frames: AsyncIterable<Frame>,
  reply: ReplyChunks,
  { fitting }: SdkLevel,
  { cut }: Listener,
): AsyncGenerator<UiPiece> {
  const fit = fitting()
  for await (const frame of frames) {
    const { chunks, end } = reply.take(frame)
    if (chunks.length > 0 || end === 'whole') yield { chunks: chunks.flatMap(fit), isLast: end === 'whole' }
    if (end === 'cut') cut()
    if (end) return
  }
}
