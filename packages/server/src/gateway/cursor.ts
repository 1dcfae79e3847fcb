// The position of a follower, sent as the id of an event and as the `cursor` of a frame: `seq`, `seq.ended`, or `seq.ended.attempt.next` while the follower
// receives a turn. `e` and the number of the last batch of erased messages follow, if there was one. Opaque to clients, which send back the last one that they have.
import { PAGE_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'
import type { Cursor } from '../session/follow.ts'

export function formatCursor({ seq, ended, open, erased }: Cursor): string {
  const place = [seq, ended, open?.attempt, open?.next].filter((value) => value !== undefined).join('.')
  return erased ? `${place}e${erased}` : place
}

/** `fault` says in an error what the text must be. */
export function cursorSchema(fault: string) {
  return z
    .string()
    .regex(/^\d{1,10}(?:\.\d{1,10}(?:\.\d{1,10}\.\d{1,10})?)?(?:e\d{1,10})?$/, fault)
    .transform((text) => text.split('e').map((part) => part.split('.').map(Number)))
    .refine((parts) => parts.flat().every((value) => value <= PAGE_LIMITS.seq), fault)
    .transform(([place, erased]): Cursor => {
      const [seq, ended, attempt, next] = place!
      const open = attempt === undefined ? undefined : { attempt, next: next! }
      return { seq: seq!, ended, open, erased: erased?.[0] ?? 0 }
    })
}
