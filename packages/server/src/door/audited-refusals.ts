// Tells which refused requests belong in the audit log: 401, 403 and 429. Requests that are rejected for their content, such as an
// invalid field, do not.
import { Rejected, Retry } from '../errors.ts'
import type { Caller } from '../identity/actor.ts'
import type { RefusedRequest } from '../identity/refused-requests.ts'

type Asked = {
  /** The caller, once the port knows it, even if the route then refuses it. An error may carry its own `caller`, which wins. */
  readonly caller: Caller | undefined
  readonly address: string
  readonly method: string
  /** The pattern of the route; undefined if there is none. */
  readonly route: string | undefined
}

const RECORDED: ReadonlySet<string> = new Set(['unauthenticated', 'forbidden', 'rate_limited'])

/** Undefined if the error is not such a refusal. */
export function refusedRequest(
  error: unknown,
  { caller, address, method, route = 'none' }: Asked,
): RefusedRequest | undefined {
  if (!(error instanceof Rejected || error instanceof Retry) || !RECORDED.has(error.code)) return undefined
  const { reason = error.code, caller: named } = error.fields as { reason?: string; caller?: Caller }
  return { caller: named ?? caller ?? null, address, target: `${method} ${route}`, reason }
}
