// What a caller sees when a request fails: a code of the protocol's table, a sentence and a request id. It never contains
// SQL, a stack or configuration (S21), except that the sentence of a 429 names the rate limit. The caller sees an error's own sentence only if the error says that the caller is at
// fault, or that its sentence is for the caller (`isForCaller`); otherwise it sees the meaning of the code.
import { ERROR_CODES, type ErrorCode } from '@fleetline/protocol'
import { z } from 'zod'
import { Abort, Bug, Rejected, Retry } from '../errors.ts'

export type Refusal = {
  readonly code: ErrorCode
  readonly text: string
  readonly retryAfterMs?: number
  /** For `stale`: the actual value, where the caller expected another. */
  readonly current?: Current
}
type Current = z.infer<typeof currentSchema>

const currentSchema = z.object({
  head: z.int().optional(),
  epoch: z.int().optional(),
  turn: z.string().nullable().optional(),
})
const waitSchema = z.int()

export const refusalSchema = z.object({
  error: z.object({
    code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
    text: z.string(),
    retryable: z.boolean(),
    retryAfterMs: waitSchema.optional(),
    current: currentSchema.optional(),
    requestId: z.string(),
  }),
})

const RETRY_AFTER_MS = 1_000

const TOO_LARGE = 'FST_ERR_CTP_BODY_TOO_LARGE'
// Errors that Fastify and Node throw before a handler runs.
const OF_THE_SERVER: Readonly<Record<string, Refusal>> = {
  [TOO_LARGE]: { code: 'too_large', text: 'The body is larger than this port takes.' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: { code: 'invalid', text: 'The body must be application/json.' },
  FST_ERR_CTP_EMPTY_JSON_BODY: { code: 'invalid', text: 'The body is empty. Send JSON, at least {}.' },
  FST_ERR_CTP_INVALID_JSON_BODY: { code: 'invalid', text: 'The body is not JSON.' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { code: 'invalid', text: 'The body has not the length that it names.' },
  FST_ERR_BAD_URL: { code: 'invalid', text: 'The path is not well formed.' },
  FST_ERR_HANDLER_TIMEOUT: { code: 'unavailable', text: ERROR_CODES.unavailable.meaning },
}

export const NO_ROUTE: Refusal = {
  code: 'not_found',
  text: 'There is no such route; GET /v1/openapi.json lists them.',
}

/** `tooLargeText`: what the route says of a body that is too large. */
export function refusalOf(
  error: unknown,
  { tooLargeText }: { readonly tooLargeText?: string | undefined } = {},
): Refusal {
  if (error instanceof Rejected) {
    const current = currentSchema.safeParse(error.fields['current'])
    const retryAfterMs = waitSchema.safeParse(error.fields['retryAfterMs'])
    return {
      code: error.code,
      text: error.message,
      ...(current.success && { current: current.data }),
      ...(retryAfterMs.success && { retryAfterMs: retryAfterMs.data }),
    }
  }
  if (error instanceof Retry) {
    const { code, afterMs = RETRY_AFTER_MS, fields, message } = error
    const text = fields['isForCaller'] === true ? message : ERROR_CODES[code].meaning
    return { code, text, retryAfterMs: afterMs }
  }
  if (error instanceof Abort || error instanceof Bug)
    return { code: error.code, text: ERROR_CODES[error.code].meaning }
  const { code } = (error ?? {}) as { code?: unknown }
  const known = typeof code === 'string' ? OF_THE_SERVER[code] : undefined
  if (known && tooLargeText !== undefined && code === TOO_LARGE) return { ...known, text: tooLargeText }
  if (known) return known
  return { code: 'internal', text: ERROR_CODES.internal.meaning }
}

export function statusOf({ code }: Refusal): number {
  return ERROR_CODES[code].http
}

export function bodyOf({ code, text, ...more }: Refusal, requestId: string) {
  return { error: { code, text, retryable: ERROR_CODES[code].retryable, ...more, requestId } }
}
