// Keeps a caller's stream or socket open only while the caller has access (S9). If the pod could not check that for 5 s, because
// PostgreSQL does not answer, it sends nothing until it can.
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'

const RECHECK_MS = 2_000
const UNKNOWN_MS = 5_000
const SLOT_MS = 100

type Asking = {
  /** Throws a `Rejected` if the caller is not let in any more. */
  readonly recheck: () => Promise<unknown>
  readonly clock: Clock
}

export type Admission = ReturnType<typeof admissionOf>

/** When the caller was last known to be let in. */
export function admissionOf(clock: Clock) {
  let [knownMs, next] = [clock.monotonicMs(), Promise.withResolvers<void>()]
  return {
    know: (atMs: number) => {
      knownMs = Math.max(knownMs, atMs) // a new token may have been let in while the old one was asked about
      next.resolve()
      next = Promise.withResolvers()
    },
    isKnown: () => clock.monotonicMs() < knownMs + UNKNOWN_MS,
    /** Resolves at once if it was known in the last 5 s, or else when it is known. */
    known: async () => {
      while (clock.monotonicMs() >= knownMs + UNKNOWN_MS) await next.promise
    },
  }
}

/** Checks every 2 s whether the caller still has access. Resolves to the reason if not, or to undefined once the signal is aborted. All
 *  checks begin at multiples of 100 ms, so that many callers share one read. */
export async function untilRefused(
  { recheck, clock }: Asking,
  admission: Admission,
  signal: AbortSignal,
): Promise<Rejected | undefined> {
  try {
    for (;;) {
      await clock.sleep(RECHECK_MS - (clock.monotonicMs() % SLOT_MS), signal)
      const askedMs = clock.monotonicMs()
      await recheck().then(
        () => admission.know(askedMs),
        (error: unknown) => {
          if (error instanceof Rejected) throw error
        },
      )
    }
  } catch (error) {
    return error instanceof Rejected ? error : undefined // otherwise the stream is over
  }
}
