// What a request can fail with. Refused: it had no effect, and a repeat would have none. Any other failure says nothing about
// the outcome: send the same request again, with the same id.

/** The code for a refusal by something between the device and the fleet. */
export const STRANGER = 'internal'

/** A code of the error table, and a sentence. */
export type Refusal = { readonly code: string; readonly text: string }

export class FleetlineError extends Error {
  override readonly name = 'FleetlineError'
  readonly code: string
  readonly isRefused: boolean
  /** Retry after this time at the earliest. */
  readonly retryAfterMs: number

  constructor({ code, text }: Refusal, { isRefused = false, retryAfterMs = 0, cause }: Details = {}) {
    super(text, { cause })
    this.code = code
    this.isRefused = isRefused
    this.retryAfterMs = retryAfterMs
  }
}
type Details = {
  readonly isRefused?: boolean
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
}

export function isRefusal(error: unknown): error is FleetlineError {
  return error instanceof FleetlineError && error.isRefused
}

/** What a snapshot shows of an error. */
export function refusalOf({ code, message }: FleetlineError): Refusal {
  return { code, text: message }
}

export function retryAfterMs(error: unknown): number {
  return error instanceof FleetlineError ? error.retryAfterMs : 0
}

export function unavailable(text: string, cause?: unknown): FleetlineError {
  return new FleetlineError({ code: 'unavailable', text }, { cause })
}

export function refused(code: string, text: string, cause?: unknown): FleetlineError {
  return new FleetlineError({ code, text }, { isRefused: true, cause })
}

/** The error that a pod answers with. */
export type Told = Refusal & { readonly retryable: boolean; readonly retryAfterMs?: number | undefined }

export function errorOf(told: Told): FleetlineError {
  return new FleetlineError(told, { isRefused: !told.retryable, retryAfterMs: told.retryAfterMs })
}

/** Makes an error from an answer that is not ok. An answer that is not Fleetline's comes from something in between. */
export async function failureOf(answer: Response): Promise<FleetlineError> {
  const { status } = answer
  const refusal = toldIn(await answer.json().catch(() => undefined))
  if (status === 408) return unavailable('There is no answer.') // the connection was idle and given up; the request was not read
  if (!refusal) {
    const text = `${answer.url} was answered with ${status}, not by Fleetline.`
    const isRefused = [400, 401, 403, 413].includes(status) // other statuses may come from a proxy whose pod is not up yet
    return new FleetlineError({ code: isRefused ? STRANGER : 'unavailable', text }, { isRefused })
  }
  return errorOf(refusal)
}

function toldIn(body: unknown): Told | undefined {
  const { error } = (body ?? {}) as { error?: Partial<Told> }
  const isOurs = typeof error?.code === 'string' && typeof error.retryable === 'boolean'
  return isOurs ? (error as Told) : undefined
}
