// The position of a follower, sent as the id of an event: `seq`, `seq.ended`, or `seq.ended.attempt.next` while the follower
// receives a turn. Opaque to clients, which send back the last one that they have.
import { PAGE_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'
import type { Cursor } from '../session/follow.ts'

export function formatCursor({ seq, ended, open }: Cursor): string {
  return [seq, ended, open?.attempt, open?.next].filter((value) => value !== undefined).join('.')
}

export const cursor = z
  .string()
  .regex(/^\d{1,10}(?:\.\d{1,10}(?:\.\d{1,10}\.\d{1,10})?)?$/, 'must be the id of an event')
  .transform((text) => text.split('.').map(Number))
  .refine((values) => values.every((value) => value <= PAGE_LIMITS.seq), 'must be the id of an event')
  .transform(([seq, ended, attempt, next]): Cursor => {
    const open = attempt === undefined ? undefined : { attempt, next: next! }
    return { seq: seq!, ended, open }
  })
