// How much of the throttle is in force: from all of it to nothing. An operator may loosen every key of a pod, and code one
// key; nobody tightens what another has loosened.

export const MODES = ['enforce', 'observe', 'off'] as const
export type Mode = (typeof MODES)[number]

/** The looser of both. */
export function modeOf(one: Mode, other: Mode): Mode {
  return MODES.indexOf(one) > MODES.indexOf(other) ? one : other
}
