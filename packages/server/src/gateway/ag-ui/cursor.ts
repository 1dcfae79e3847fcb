// The position of a reader of AG-UI events, as the id of an event. In the middle of a reply it ends with `~`: AG-UI cannot resume a message
// there, so a reader that comes back with it begins with a snapshot, and gets that reply from its beginning.
import { z } from 'zod'
import type { Cursor } from '../../session/follow.ts'
import { cursorSchema, formatCursor } from '../cursor.ts'

const INSIDE = '~'
const FAULT = 'must be the id of an event'

export type AgUiCursor = { readonly at: Omit<Cursor, 'open'>; readonly isInside: boolean }

export function formatAgUiCursor({ at: { seq, ended, erased }, isInside }: AgUiCursor): string {
  return `${formatCursor({ seq, ended, erased })}${isInside ? INSIDE : ''}`
}

export const agUiCursorSchema = z
  .string()
  .max(64, FAULT)
  .transform((text, context): AgUiCursor => {
    const isInside = text.endsWith(INSIDE)
    const parsed = cursorSchema(FAULT).safeParse(isInside ? text.slice(0, -INSIDE.length) : text)
    if (parsed.success && parsed.data.open === undefined) return { at: parsed.data, isInside }
    context.addIssue(FAULT)
    return z.NEVER
  })
