// A task as the wire knows it.

export const TASK_LIMITS = {
  /** As JSON in UTF-8. */
  inputBytes: 262_144,
  resultBytes: 65_536,
  errorBytes: 8_192,
  /** How many may be enqueued at once. */
  list: 1_000,
  priority: 7,
  attempts: 1_000,
} as const

/** Of queues and machines: it stands in paths, labels and logs. */
export const TASK_NAME: RegExp = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/
