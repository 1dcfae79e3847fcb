// How many more tasks a pod takes: its free slots, and fewer of them once its event loop is over 80 % busy. A pod that runs
// nothing still takes a tenth of its slots, and at least one. So work that keeps the event loop busy continues, and not one
// task at a time. Pure.

const CALM = 0.8
const MOST = 500 // in one claim

export type PodLoad = {
  readonly slots: number
  readonly running: number
  /** How busy the event loop is, from 0 to 1. */
  readonly utilisation: number
}

export function countFreeSlots({ slots, running, utilisation }: PodLoad): number {
  const free = Math.max(0, slots - running)
  const part = utilisation <= CALM ? 1 : (1 - Math.min(1, utilisation)) / (1 - CALM)
  const room = Math.floor(free * part)
  return Math.min(MOST, running === 0 ? Math.max(Math.ceil(slots / 10), room) : room)
}
