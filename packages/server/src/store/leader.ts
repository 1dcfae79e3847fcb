// What all work of the leader has in common, for every room that has such work. A leader's write of a row names its term: a leader
// that was overtaken changes no row.

/** The term of a leader, and the pod that it is. */
export type Term = { readonly term: number; readonly pod: number }

/** Work that the leader does again and again. `fleet/duties` runs it. */
export type Duty = {
  readonly name: string
  readonly everyMs: number
  /** `hasTime` says whether there is time for another step; what is left waits for the next run. */
  readonly run: (term: Term, hasTime: () => boolean) => Promise<void>
}

/** The condition of a leader's write. $1 is the term, $2 the leader's pod. */
export const IS_LEADER = 'exists (select from fleetline.leader l where l.term = $1 and l.pod = $2)'
