// A pod is killed while it holds permits. Its share of the downstream goes to the pods that live.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { valueOf, type Query } from '../../src/store/database.ts'
import { CALLED, calls } from '../support/app.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { podRows, bury } from '../support/fleet.ts'
import { podOn } from '../support/pod.ts'
import { APP, startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'

type Shares = Readonly<Record<string, { readonly share: number }>>

// Both statements make the pod's last report, for which it got its share, 20 s older.
const AGE_LOAD = `update fleetline.downstream_loads set at = at - interval '20 s' where pod = $1`
const AGE_SHARE = `
  update fleetline.downstreams set gen = gen + 1,
         shares = jsonb_set(shares, array[$1::text, 'at'], to_jsonb((shares #>> array[$1::text, 'at'])::float8 - 20000))
   where shares ? $1::text`
const LEARN = `update fleetline.downstreams set capacity = 3, gen = gen + 1 where key = $1`
const SHARES = `select capacity, shares from fleetline.downstreams where key = $1`

test('T5: if a pod is killed while it holds permits, another pod gets its share, and does the work under permits of its own', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const folder = await mkdtemp(join(tmpdir(), 'fleetline-permits-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  const until = join(folder, 'free')
  const shares = async () => {
    const [row] = await run((query) => query<{ capacity: number | null; shares: Shares }>(SHARES, [CALLED]))
    return row ?? { capacity: null, shares: {} }
  }

  const { program } = await startPod(t, url, { FLEETLINE_POD_NAME: 'killed' }, APP)
  const { pod } = await podOn(t, url, { podName: 'enqueues' })
  const tasks = await pod.enqueueAll([
    { machine: calls, input: { until } },
    { machine: calls, input: { until } },
  ])
  const killed = (await podRows(database)).find(({ name }) => name === 'killed')!.pod
  await eventually(
    async () => {
      await run((query) => query(LEARN, [CALLED]))
      assert.equal((await shares()).shares[killed]?.share, 3)
      assert.deepEqual(await statesOf(), ['claimed', 'claimed'])
    },
    { what: 'two permits held', details: program.output },
  )
  program.kill('SIGKILL')
  await bury(database, killed)
  const { pod: heir } = await podOn(t, url, { podName: 'heir' }, { tasks: [calls] })
  const to = heir.downstream(CALLED)
  await eventually(() => assert.ok(to.standing().held >= 1), { what: 'its work to be taken over' })
  await run((query) => query(AGE_LOAD, [killed]))
  await eventually(
    async () => {
      await run((query) => query(AGE_SHARE, [killed]))
      const { capacity, shares: now } = await shares()
      const own = (await podRows(database)).find(({ name }) => name === 'heir')!.pod
      assert.deepEqual(Object.keys(now), [String(own)])
      assert.equal(now[own]!.share, Math.floor(capacity!))
      assert.equal(to.standing().held, 2)
    },
    { what: 'the share of the dead' },
  )
  await writeFile(until, '')
  await eventually(async () => assert.deepEqual(await statesOf(), ['done', 'done']), {
    what: 'all to be done',
  })
  await eventually(() => assert.equal(to.standing().held, 0), { what: 'all permits to be back' })

  async function statesOf() {
    return Promise.all(tasks.map(async ({ id }) => (await pod.findTask(id))?.state))
  }
})
