// The answer of `GET /dev/scene`: the fleet as it is now. Only types, for the page and its server.

export type Scene = {
  readonly version: string
  /** The version of PostgreSQL, or its URL if it is not the fleet's own. */
  readonly postgres: string
  readonly isChaos: boolean
  /** A pod counts as dead this long after its last beat. */
  readonly ttlMs: number
  /** How long a pause lasts, and the time between two kills of chaos. */
  readonly pauseMs: number
  readonly chaosMs: number
  readonly pods: readonly ScenePod[]
  /** Null while the log cannot be read. */
  readonly score: Score | null
  /** The latest events, oldest first. */
  readonly events: readonly SceneEvent[]
  /** Null while it cannot be read. */
  readonly work: SceneWork | null
}

/** What a person can do to a pod. */
export type Act = 'kill' | 'pause' | 'wake' | 'restart'
export type DeviceName = 'laptop' | 'phone'

export type ScenePod = {
  readonly name: string
  readonly state: 'starting' | 'ready' | 'paused' | 'ending' | 'waiting' | 'ended'
  /** Milliseconds since 1970; null if it is not ready. */
  readonly readySinceMs: number | null
  /** The fleet's number for this process of the pod; null if it has none yet. */
  readonly number: number | null
  readonly isLeader: boolean
  /** Only for the leader. */
  readonly term: number | null
  /** Whether the other pods count it as dead. */
  readonly isBuried: boolean
  readonly beatAgeMs: number | null
  /** Only while it is paused. */
  readonly wakesInMs: number | null
  /** Only after it has ended: since when, and how. */
  readonly endedAgoMs: number | null
  readonly how: string | null
}

export type Score = {
  /** Messages that a device was told are stored. */
  readonly acked: number
  /** Acknowledged messages and messages once seen in the log that are not in the log now. */
  readonly lost: number
  /** Messages, and replies to the same message, that are in the log twice. */
  readonly doubled: number
}

/** The fleet's work besides the conversation. */
export type SceneWork = {
  readonly machines: readonly SceneMachine[]
  readonly downstreams: readonly SceneDownstream[]
  /** The newest tasks, newest first. */
  readonly tasks: readonly SceneTask[]
}

/** A task's handler or a machine, with the number of its tasks in each state. */
export type SceneMachine = {
  readonly queue: string
  readonly name: string
  /** The numbers are from a sample. */
  readonly isEstimated: boolean
  readonly ready: number
  readonly waiting: number
  readonly claimed: number
  readonly held: number
  readonly dead: number
}

export type SceneDownstream = {
  readonly key: string
  readonly inFlight: number
  /** How many calls all pods together may have in flight; null until a limit is learnt. */
  readonly capacity: number | null
  /** No pod sends before this time. */
  readonly pausedUntil: string | null
}

export type SceneTask = {
  readonly id: string
  readonly machine: string
  readonly state: string
  readonly attempt: number
  readonly code: string | null
}

export type SceneEvent = {
  readonly number: number
  readonly at: string
  readonly source: string
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}
