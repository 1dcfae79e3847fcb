// A browser opens at most six connections to one address, for all its tabs together. A page keeps four open and needs a fifth for
// a moment. So one page runs at a time; another one waits until it is closed.

/** Resolves when this page may run. Calls `onWait` if it has to wait. */
export async function takePlace(onWait: () => void): Promise<void> {
  const { locks } = navigator as { readonly locks?: LockManager } // absent if the page is opened under a name of another machine
  if (!locks) return
  const take = (options: LockOptions): Promise<boolean> =>
    new Promise((resolve, reject) => {
      const hold = (lock: Lock | null) => {
        resolve(lock !== null)
        return lock && new Promise<void>(() => undefined) // until the page is closed
      }
      locks.request('fleetline', options, hold).catch(reject)
    })
  try {
    if (await take({ ifAvailable: true })) return
    onWait()
    await take({})
  } catch {
    // the browser allows no locks: then nobody counts the tabs
  }
}
