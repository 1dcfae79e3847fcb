// Where a follower is, as the id of an event: `seq`, or `seq.turn.attempt.next` while a turn is told to it. Opaque to
// clients, which send back the last one that they have.
import { formatId, PAGE_LIMITS, parseId } from '@fleetline/protocol'
import { z } from 'zod'
import type { Cursor } from '../session/follow.ts'

export function formatCursor({ seq, open }: Cursor, cell: number): string {
  if (!open) return String(seq)
  return [seq, formatId('turn', cell, open.turn), open.attempt, open.next].join('.')
}

// A turn of another cell is one that is not there.
export const cursor = z
  .string()
  .regex(/^\d{1,10}(?:\.turn_[0-9a-f]{36}\.\d{1,10}\.\d{1,10})?$/, 'must be the id of an event')
  .transform(parseCursor)
  .refine(isWithin, `its numbers must be from 0 to ${PAGE_LIMITS.seq}`)

function parseCursor(text: string): Cursor {
  const [seq, turn = '', attempt, next] = text.split('.')
  const id = parseId('turn', turn)
  const open = id && { turn: id.uuid, attempt: Number(attempt), next: Number(next) }
  return { seq: Number(seq), open }
}

function isWithin({ seq, open }: Cursor): boolean {
  return [seq, open?.attempt ?? 0, open?.next ?? 0].every((value) => value <= PAGE_LIMITS.seq)
}
