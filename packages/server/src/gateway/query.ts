// Numbers in the query string of a URL.
import { PAGE_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'

export function whole(min: number, max: number) {
  const isWithin = (value: number) => value >= min && value <= max
  return z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .refine(isWithin, `must be from ${min} to ${max}`)
}

export const limit = whole(1, PAGE_LIMITS.items).default(50)
