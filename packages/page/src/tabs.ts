// A browser opens at most six connections to one address, for all its tabs together. A page keeps two open and needs a third for
// a moment. So two pages run at a time; another one waits until one of them is closed.
const PLACES = ['first', 'second'] as const

/** Resolves when this page may run. Calls `onWait` if it has to wait. */
export async function takePlace(onWait: () => void): Promise<void> {
  const { locks } = navigator as { readonly locks?: LockManager } // absent if the page is opened under a name of another machine
  if (!locks) return
  let isIn = false
  const take = (place: string, options: LockOptions): Promise<void> =>
    new Promise((resolve, reject) => {
      const hold = (lock: Lock | null) => {
        if (!lock || isIn) return undefined // both may become free at once: one of them is enough
        isIn = true
        resolve()
        return new Promise<void>(() => undefined) // until the page is closed
      }
      locks.request(`fleetline ${place}`, options, hold).then(() => resolve(), reject)
    })
  try {
    for (const place of PLACES) if (!isIn) await take(place, { ifAvailable: true })
  } catch {
    return // the browser allows no locks: then nobody counts the tabs
  }
  if (isIn) return
  onWait()
  const waiting = new AbortController()
  await Promise.any(PLACES.map((place) => take(place, { signal: waiting.signal })))
  waiting.abort()
}
