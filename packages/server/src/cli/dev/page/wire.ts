// What the page asks its server, `GET /dev/scene`: the fleet as it is now. Types alone, for both sides.

export type Scene = {
  readonly version: string
  /** Its version, or where it is if it is not ours. */
  readonly postgres: string
  readonly isChaos: boolean
  /** So long after its last beat a pod is counted as dead. */
  readonly ttlMs: number
  /** How long a pause is, and how far apart the kills of chaos are. */
  readonly pauseMs: number
  readonly chaosMs: number
  readonly pods: readonly ScenePod[]
  /** Null while the log cannot be read. */
  readonly score: Score | null
  /** The latest, oldest first. */
  readonly events: readonly SceneEvent[]
}

/** What one may do to a pod. */
export type Act = 'kill' | 'pause' | 'wake' | 'restart'
export type DeviceName = 'laptop' | 'phone'

export type ScenePod = {
  readonly name: string
  readonly state: 'starting' | 'ready' | 'paused' | 'ending' | 'waiting' | 'ended'
  /** Milliseconds since 1970; null: it is not ready. */
  readonly readySinceMs: number | null
  /** The number that the fleet knows this life of it by; null: not yet. */
  readonly number: number | null
  readonly isLeader: boolean
  /** The leader's. */
  readonly term: number | null
  /** Whether the others count it as dead. */
  readonly isBuried: boolean
  readonly beatAgeMs: number | null
  /** Of one that is paused. */
  readonly wakesInMs: number | null
  /** Of one that has ended: since when, and how. */
  readonly endedAgoMs: number | null
  readonly how: string | null
}

export type Score = {
  /** Messages that a device was told are stored. */
  readonly acked: number
  /** Of what a device was told, or the log once had, what the log does not have now. */
  readonly lost: number
  /** What stands in the log twice: a message, or a reply to one. */
  readonly doubled: number
}

export type SceneEvent = {
  readonly number: number
  readonly at: string
  readonly source: string
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}
