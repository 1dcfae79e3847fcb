// What the page knows of the fleet: asked twice a second, one answer after the other.
import type { Scene } from '../../server/src/cli/dev/page/wire.ts'
import { createCell, type Store } from './store.ts'

export type Act = 'kill' | 'pause' | 'wake' | 'restart'
/** Null: the fleet was not heard of yet. */
export type Known = { readonly scene: Scene | null; readonly isHere: boolean }

export type Stage = Store<Known> & {
  readonly act: (pod: string, act: Act) => void
  readonly setChaos: (isOn: boolean) => void
}

const LOOK_MS = 500

export function createStage(): Stage {
  const cell = createCell<Known>({ scene: null, isHere: true })
  const look = async () => {
    try {
      const answer = await fetch('/dev/scene')
      if (!answer.ok) throw new Error(`${answer.status}`)
      cell.set({ scene: (await answer.json()) as Scene, isHere: true })
    } catch {
      cell.set({ ...cell.get(), isHere: false })
    }
  }
  const watch = async () => {
    await look()
    setTimeout(watch, LOOK_MS)
  }
  // What it was asked shows in the next look; a button that comes too late has no effect, and that shows as well.
  const post = (path: string) => void fetch(path, { method: 'POST' }).then(look, look)
  void watch()
  return {
    get: cell.get,
    subscribe: cell.subscribe,
    act: (pod, act) => post(`/dev/pods/${pod}/${act}`),
    setChaos: (isOn) => post(`/dev/chaos/${isOn ? 'on' : 'off'}`),
  }
}
