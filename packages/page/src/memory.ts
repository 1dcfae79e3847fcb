// Keeps the attempts of replies in the browser, so that a reloaded page still shows them.
import type { Trail } from './trail.ts'

const MOST = 50

export function recallTrails(name: string): ReadonlyMap<string, Trail> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(keyOf(name)) ?? '[]')
    return new Map((Array.isArray(kept) ? kept : []).filter(isTrail).map((trail) => [trail.turn, trail]))
  } catch {
    return new Map() // the browser keeps nothing for this page, or something else is kept there
  }
}

export function keepTrails(name: string, trails: ReadonlyMap<string, Trail>): void {
  const all = [...recallTrails(name), ...trails] // another tab may have kept some
  const kept = Array.from(new Map(all).values(), ({ turn, attempts }) => ({ turn, attempts })).slice(-MOST)
  try {
    localStorage.setItem(keyOf(name), JSON.stringify(kept))
  } catch {
    // the browser keeps nothing for this page
  }
}

function keyOf(name: string): string {
  return `fleetline trails ${name}`
}

function isTrail(kept: unknown): kept is Trail {
  const { turn, attempts } = (kept ?? {}) as Partial<Trail>
  return typeof turn === 'string' && Array.isArray(attempts) && attempts.every(isAttempt)
}

function isAttempt(kept: unknown): boolean {
  const { attempt, pod, atMs, firstMs, lastMs } = (kept ?? {}) as Partial<Trail['attempts'][number]>
  const numbers = [attempt, atMs, lastMs, firstMs ?? 0]
  return typeof pod === 'string' && numbers.every((value) => typeof value === 'number')
}
