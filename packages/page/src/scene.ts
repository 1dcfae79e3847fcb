// What the page knows of the fleet. It asks twice a second, and after each action. If answers overlap, the answer to the latest
// request counts.
import type { Act, Scene } from '../../server/src/cli/dev/page/wire.ts'
import { createCell, type Store } from './store.ts'

/** `scene` is null until the fleet has answered. */
export type Known = { readonly scene: Scene | null; readonly isHere: boolean }

export type Stage = Store<Known> & {
  readonly act: (pod: string, act: Act) => void
  readonly setChaos: (isOn: boolean) => void
}

const [LOOK_MS, PATIENCE_MS] = [500, 3_000]

export function createStage(): Stage {
  const cell = createCell<Known>({ scene: null, isHere: true })
  let [asked, answered] = [0, 0]
  const look = async () => {
    const number = ++asked
    const known = await sceneNow().then(
      (scene) => ({ scene, isHere: true }),
      () => ({ ...cell.get(), isHere: false }),
    )
    if (number < answered) return
    answered = number
    cell.set(known)
  }
  const watch = async () => {
    await look()
    setTimeout(watch, LOOK_MS)
  }
  // The next look shows the effect of an action. An action that comes too late has no effect, which shows as well.
  const post = (path: string) =>
    void fetch(path, { method: 'POST', signal: AbortSignal.timeout(PATIENCE_MS) }).then(look, look)
  void watch()
  return {
    get: cell.get,
    subscribe: cell.subscribe,
    act: (pod, act) => post(`/dev/pods/${pod}/${act}`),
    setChaos: (isOn) => post(`/dev/chaos/${isOn ? 'on' : 'off'}`),
  }
}

async function sceneNow(): Promise<Scene> {
  const answer = await fetch('/dev/scene', { signal: AbortSignal.timeout(PATIENCE_MS) })
  if (!answer.ok) throw new Error(`The scene was answered with ${answer.status}`)
  return (await answer.json()) as Scene
}
