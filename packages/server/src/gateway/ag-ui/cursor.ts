// The position of a reader of AG-UI events, as the id of an event. In the middle of a reply it ends with `~`, or with `~~` if no run is open
// there. AG-UI cannot resume a message, so a reader that comes back with such an id begins with a snapshot, and gets that reply from its
// beginning.
import { z } from 'zod'
import type { Cursor } from '../../session/follow.ts'
import { cursorSchema, formatCursor } from '../cursor.ts'

const FAULT = 'must be the id of an event'

/** `between`: the position is that of the last whole message. `run`, `pause`: the reader has more; a run is open, or none. */
const MARKS = { between: '', run: '~', pause: '~~' } as const
export type AgUiCursor = { readonly at: Omit<Cursor, 'open'>; readonly where: keyof typeof MARKS }

export function formatAgUiCursor({ at: { seq, ended, erased }, where }: AgUiCursor): string {
  return `${formatCursor({ seq, ended, erased })}${MARKS[where]}`
}

export const agUiCursorSchema = z
  .string()
  .max(64, FAULT)
  .transform((text, context): AgUiCursor => {
    const [, place, mark] = /^([^~]*)(~{0,2})$/.exec(text) ?? []
    const parsed = cursorSchema(FAULT).safeParse(place)
    const where = mark === MARKS.run ? 'run' : mark === MARKS.pause ? 'pause' : 'between'
    if (parsed.success && parsed.data.open === undefined) return { at: parsed.data, where }
    context.addIssue(FAULT)
    return z.NEVER
  })

type SentBatch = {
  readonly before: AgUiCursor['at']
  /** Once the reader has the last one. */
  readonly after: AgUiCursor['at']
  /** It then has a part of a reply. */
  readonly isInside: boolean
}
const ENDS = ['RUN_FINISHED', 'RUN_ERROR']

/** Where a reader is after each of the events that a frame becomes. */
export function placesOf(events: readonly { readonly type: string }[], batch: SentBatch): AgUiCursor[] {
  return events.map(({ type }, index) => {
    const isLast = index === events.length - 1
    const where = isLast && !batch.isInside ? 'between' : ENDS.includes(type) ? 'pause' : 'run'
    return { at: isLast ? batch.after : batch.before, where }
  })
}
