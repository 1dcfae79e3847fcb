// Tasks that wait for a file, and the pods that run them. Each pod is a process.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { podRows } from './fleet.ts'
import { APP, startPod } from './pods.ts'
import { queueOn } from './tasks.ts'

/** How many slots each pod has. */
export const FULL = 20
const SLOTS = { FLEETLINE_SLOTS: String(FULL) }

/** A queue, and a file that tasks wait for. */
export async function gated(t: TestContext) {
  const queue = await queueOn(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-rescue-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const until = join(folder, 'open')
  const claimed = async () => (await queue.tasks()).filter(({ state }) => state === 'claimed')
  return {
    ...queue,
    until,
    open: () => writeFileSync(until, ''),
    untilClaimed: (count: number, details: () => string) =>
      eventually(
        async () => {
          const rows = await claimed()
          assert.equal(rows.length, count)
          return rows
        },
        { what: `${count} claims`, details },
      ),
    /** Starts a pod. Resolves to the pod and its number, `id`. */
    podNamed: async (name: string, hasApp = true) => {
      const pod = await startPod(
        t,
        queue.url,
        { ...SLOTS, FLEETLINE_POD_NAME: name },
        hasApp ? APP : undefined,
      )
      const rows = (await podRows(queue.database)).filter((row) => row.name === name && row.state === 'live')
      assert.equal(rows.length, 1)
      return { ...pod, id: rows[0]!.pod, details: pod.program.output }
    },
  }
}
