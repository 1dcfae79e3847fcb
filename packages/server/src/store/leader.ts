// Declarations for the leader's work, used by every room that has duties. A leader names its term in each write of a row, so
// a leader that was replaced changes no row.

/** A leader's term, and its pod. */
export type Term = { readonly term: number; readonly pod: number }

/** Work that the leader repeats. `fleet/duties` runs it. */
export type Duty = {
  readonly name: string
  readonly everyMs: number
  /** Duties of one group run one at a time, so that together they leave room for others. */
  readonly group?: string
  /** `hasTime` says whether there is time for another step; the rest waits for the next run. */
  readonly run: (term: Term, hasTime: () => boolean) => Promise<void>
}

/** The condition in a leader's write. $1 is the term, $2 the leader's pod. */
export const IS_LEADER = 'exists (select from fleetline.leader l where l.term = $1 and l.pod = $2)'
