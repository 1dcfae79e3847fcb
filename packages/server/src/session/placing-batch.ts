// A batch while its items are placed, one after the other: each item sees what the items before it have changed.
import { step, type ConversationEvent, type LiveTurn } from '../conversation/step.ts'
import type { ContextSize } from '../conversation/budget.ts'
import type { MessageDraft } from './draft.ts'
import {
  nameOf,
  type BatchFindings,
  type Closed,
  type CompactionEnd,
  type CursorMove,
  type MarkRead,
  type Placed,
  type ReadCursor,
  type SessionKey,
  type SessionState,
  type Started,
  type StartedCompaction,
  type StoredMessage,
  type Unsummarised,
} from './items.ts'

export type PlacingBatch = ReturnType<typeof createBatch>

export function createBatch(found: BatchFindings, newId: () => string) {
  const changed = new Map<string, SessionState>()
  const inBatch = new Map<string, StoredMessage>()
  const written: Placed['written'][number][] = []
  const started: Started[] = []
  const closed: Closed[] = []
  const cursors = new Map<string, CursorMove>()
  const startedCompactions: StartedCompaction[] = []
  const endedCompactions: CompactionEnd[] = []
  const unsummarised = new Map<string, Unsummarised>()
  const nameIn = (key: SessionKey, draft: Pick<MessageDraft, 'key'>) => `${nameOf(key)}/${draft.key}`
  return {
    found,
    changed,
    written,
    started,
    closed,
    cursors,
    startedCompactions,
    endedCompactions,
    unsummarised,
    session: (key: SessionKey) => changed.get(nameOf(key)) ?? found.sessions.get(nameOf(key)),
    storedAs: (key: SessionKey, draft: MessageDraft | undefined, index: number) =>
      found.stored.get(index) ?? (draft && inBatch.get(nameIn(key, draft))),
    /** Writes at the next seq; returns the session with its new head. */
    write: (
      state: SessionState,
      message: Omit<Placed['written'][number], keyof SessionKey | 'seq'>,
    ): SessionState => {
      const { tenant, session, head } = state
      const seq = head + 1
      written.push({ tenant, session, seq, ...message })
      inBatch.set(nameIn(state, message.draft), { seq, digest: message.draft.digest, isErased: false })
      const grown = { ...state, head: seq, ...(message.draft.role === 'assistant' && { replied: seq }) }
      const { replaces = [] } = message
      return replaces.length === 0 ? grown : { ...grown, replaced: [...(state.replaced ?? []), ...replaces] }
    },
    /** Undefined: the user is no member. */
    cursorOf: ({ user, ...key }: MarkRead, index: number): ReadCursor | undefined => {
      const stored = found.cursors.get(index)
      return stored && (cursors.get(`${nameOf(key)}/${user}`) ?? stored)
    },
    moveCursor: ({ tenant, session }: SessionKey, user: string, to: ReadCursor) =>
      void cursors.set(`${nameOf({ tenant, session })}/${user}`, { tenant, session, user, ...to }),
    /** Returns the session after the event. Undefined: the event is fenced and changes nothing. */
    step: (
      state: SessionState,
      event: WithoutId<ConversationEvent>,
      start: Pick<Started, 'readTo' | 'replaces' | 'cause'> = {},
    ): SessionState | undefined => {
      const stepped = step(state, { ...event, newId: newId() })
      if (stepped.type === 'fenced') return undefined
      const { tenant, session, agent } = state
      if (stepped.starts) started.push({ tenant, session, agent: agent!, ...stepped.starts, ...start })
      return { ...state, ...stepped.state }
    },
    /** How the turn of the item at this index ended, and which attempt ended it. */
    endOf: ({ turn }: LiveTurn, index: number): Pick<Closed, 'attempt' | 'outcome'> | undefined => {
      const row = found.turns.get(index)
      const before = row?.outcome ? { attempt: row.endedBy ?? 0, outcome: row.outcome } : undefined
      return before ?? closed.find((one) => one.turn === turn)
    },
    /** If the step from `before` to `after` has started one. */
    startCompaction: (before: SessionState, after: SessionState, size: ContextSize | undefined) => {
      const { tenant, session, compacting: compaction, agent, head: through } = after
      if (compaction === null || compaction === before.compacting || agent === null || !size) return
      startedCompactions.push({ tenant, session, compaction, agent, through, size })
    },
    put: (state: SessionState) => void changed.set(nameOf(state), state),
  }
}
type WithoutId<Event> = Event extends unknown ? Omit<Event, 'newId'> : never
