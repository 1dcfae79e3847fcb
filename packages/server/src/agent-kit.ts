// The public entry of `fleetline/agent`, for code that answers as an agent, wherever it runs. It loads no code of a pod.
import type { AgentCall, CompactCall } from './agent/agent.ts'
import { agUiInputOf, fromAgUi, type AgUiInput } from './agent/ag-ui-call.ts'
import { ownErrorText } from './agent/own-error.ts'
import { retryAfterMs, waitMs } from './agent/retry-after.ts'
import { isSignedBy } from './agent/signature.ts'
import { createBytes } from './lib/bytes.ts'
import { systemClock } from './lib/clock.ts'

export { agUiInputOf, fromAgUi, type AgUiInput }

/** What Fleetline sends to an agent: a turn, or, with the trigger `compact`, a conversation to summarise. */
export type AgentRequest = Omit<AgentCall, NotSent> | Omit<CompactCall, NotSent>
type NotSent = 'signal' | 'deadlineMs'

/** For a request that Fleetline did not send, or did not send just now. Answer it with `status`. */
export class SignatureError extends Error {
  override readonly name = 'SignatureError'
  readonly status = 401
  readonly statusCode = 401
}

const TOLERANCE_S = 300 // the tolerance of Standard Webhooks
const BODY_BYTES = 8 * 1024 * 1024 // a conversation is sent with at most 2 MiB of messages

/** Checks that the secret, or one of several, signed the request, and returns what was sent. Throws a SignatureError. */
export async function verify(
  request: Request,
  secret: string | readonly string[],
  { now = systemClock().now() }: { readonly now?: number } = {},
): Promise<AgentRequest> {
  const header = (name: string) => request.headers.get(name) ?? ''
  const [id, timestamp] = [header('webhook-id'), header('webhook-timestamp')]
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > TOLERANCE_S)
    throw new SignatureError('webhook-timestamp is missing, or more than five minutes from now')
  const signed = { id, timestamp, body: await bodyOf(request) }
  const secrets = typeof secret === 'string' ? [secret] : secret
  if (id === '' || !(await isSignedBy(secrets, header('webhook-signature'), signed)))
    throw new SignatureError('webhook-signature is missing, or not by this secret')
  return JSON.parse(new TextDecoder().decode(signed.body)) as AgentRequest
}

type ApiError = {
  readonly name?: unknown
  readonly statusCode?: unknown
  readonly isRetryable?: unknown
  readonly responseHeaders?: { readonly [name: string]: unknown } | undefined
  /** Set on the AI SDK's RetryError. */
  readonly lastError?: unknown
}

/**
 * For the AI SDK's `toUIMessageStream({ onError })`, which otherwise hides why a call of the model failed. The text tells
 * Fleetline whether to call this agent again, and when. Readers do not see it.
 */
export function onError(error: unknown): string {
  const outer = fieldsOf(error)
  const { name, statusCode, isRetryable, responseHeaders } = outer.lastError
    ? fieldsOf(outer.lastError)
    : outer
  const ms = Number.parseFloat(String(responseHeaders?.['retry-after-ms']))
  const retryAfter = waitMs(ms) ?? retryAfterMs(responseHeaders, systemClock().now())
  return ownErrorText({
    ...(typeof name === 'string' && { code: name }),
    ...(typeof statusCode === 'number' && { status: statusCode }),
    ...(typeof isRetryable === 'boolean' && { retryable: isRetryable }),
    ...(retryAfter !== undefined && { retryAfterMs: retryAfter }),
  })
}

function fieldsOf(error: unknown): ApiError {
  return typeof error === 'object' && error !== null ? error : {}
}

async function bodyOf({ body }: Request): Promise<Uint8Array> {
  const bytes = createBytes()
  for await (const piece of body ?? []) {
    bytes.add(piece)
    if (bytes.all().length > BODY_BYTES) throw new SignatureError(`The body is over ${BODY_BYTES} bytes`)
  }
  return bytes.all()
}
