/**
 * One life of a pod: its row, and a signal that is aborted when it ends. A new one begins after a restart, or after the
 * leader counted the pod as dead.
 */
export type Incarnation = { readonly id: number; readonly signal: AbortSignal }
