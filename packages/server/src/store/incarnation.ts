/** One life of a pod: its row, and the signal that is aborted when it ends. A restart or a burial begins another. */
export type Incarnation = { readonly id: number; readonly signal: AbortSignal }
