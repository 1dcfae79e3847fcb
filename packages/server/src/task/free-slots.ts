// How many more tasks a pod takes: its free slots, and fewer of them as its event loop passes 80 %. A pod that runs nothing
// takes a tenth all the same, and one at least: work that keeps the loop busy goes on, and not one by one. Pure.

const CALM = 0.8
const MOST = 500 // in one claim

export type PodLoad = {
  readonly slots: number
  readonly running: number
  /** Of the event loop, from 0 to 1. */
  readonly utilisation: number
}

export function countFreeSlots({ slots, running, utilisation }: PodLoad): number {
  const free = Math.max(0, slots - running)
  const part = utilisation <= CALM ? 1 : (1 - Math.min(1, utilisation)) / (1 - CALM)
  const room = Math.floor(free * part)
  return Math.min(MOST, running === 0 ? Math.max(Math.ceil(slots / 10), room) : room)
}
