// Two shapes of one machine in one fleet: which one each pod runs, and what happens to tasks whose shape no pod has any more.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Task } from '@fleetline/protocol'
import { z } from 'zod'
import { machine } from '../../src/machine/definition.ts'
import type { Pod } from '../../src/pod.ts'
import type { Machine } from '../../src/task/machine.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { queueOn } from '../support/tasks.ts'

type Body = (c: { readonly signal: AbortSignal }) => Promise<void>

/** A machine with these transitions. Its result lists each name with the pod that ran it. */
function shaped(by: string, names: readonly string[], bodies: Readonly<Record<string, Body>> = {}) {
  type Out = Readonly<Record<string, string>>
  const begun = machine('m', { input: z.null(), output: z.string() })
  const whole = names.reduce(
    (so, name) =>
      so.to(name as 'a', async (c) => {
        await bodies[name]?.(c)
        return `${name}:${by}`
      }) as unknown as typeof begun,
    begun,
  )
  return whole.end((c) => names.map((name) => (c.out as Out)[name]).join(' ')) as Machine<null>
}

const untilAborted: Body = ({ signal }) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))

async function fleetOn(t: TestContext) {
  const { url, run } = await queueOn(t)
  const podOf = (one: Machine) => podOn(t, url, { drainMs: '0' }, { tasks: [one] })
  const untilTask = (pod: Pod, id: string, check: (task: Task) => void) =>
    eventually(
      async () => {
        const task = (await pod.findTask(id))!
        check(task)
        return task
      },
      { what: 'the task to get there' },
    )
  /** Enqueues a task of the old shape, and stops its pod when `a` is done. */
  const orphan = async (old: Machine<null>) => {
    const { pod } = await podOf(old)
    const { id } = await pod.enqueue({ machine: old, input: null })
    await untilTask(pod, id, ({ timeline }) => assert.equal(timeline[1]!.state, 'running'))
    await pod.stop()
    return id
  }
  return { url, run, podOf, untilTask, orphan }
}

test('each pod runs its own shape, and a task enqueued in SQL gets the newest shape that a pod runs', async (t) => {
  const { run, podOf, untilTask } = await fleetOn(t)
  const [one, two] = [shaped('one', ['a', 'b']), shaped('two', ['a', 'x'])]
  const [{ pod: first }, { pod: second }] = [await podOf(one), await podOf(two)]
  const byName = () =>
    run((query) => query<{ id: string }>(`select fleetline.enqueue('default', 'm', 'null') as id`))
  const both = [
    await first.enqueue({ machine: one, input: null }),
    await second.enqueue({ machine: two, input: null }),
    await first.enqueue({ machine: 'm', input: null }),
  ]
  const [named] = await byName()
  const ids = [...both.map(({ id }) => id), `tsk_0000${named!.id.replaceAll('-', '')}`]
  const results = ids.map(async (id) => {
    const task = await untilTask(second, id, ({ state }) => assert.equal(state, 'done'))
    return task.result
  })
  assert.deepEqual(await Promise.all(results), ['a:one b:one', 'a:two x:two', 'a:one b:one', 'a:two x:two'])
  await second.stop()
  const [again] = await byName()
  const id = `tsk_0000${again!.id.replaceAll('-', '')}`
  await untilTask(first, id, ({ result }) =>
    assert.equal(result, 'a:one b:one', 'no pod runs the newer shape now'),
  )
})

test('a task that fits no running shape is held with a reason, and resumes when a pod knows its shape', async (t) => {
  const { podOf, untilTask, orphan } = await fleetOn(t)
  const id = await orphan(shaped('old', ['a', 'b'], { b: untilAborted }))
  const { pod, gateway, admin } = await podOf(shaped('new', ['a', 'x']))
  const held = await untilTask(pod, id, ({ state }) => assert.equal(state, 'held'))
  assert.equal(held.reason, 'shape')
  assert.equal(held.transition, 'b')
  assert.equal(held.spent, 0)
  assert.deepEqual(
    held.timeline.map(({ name, state, value }) => ({ name, state, value })),
    [
      { name: 'a', state: 'done', value: 'a:old' },
      { name: 'b', state: 'held', value: null },
    ],
  )
  const { body } = await call('GET', `${gateway}/v1/tasks?state=held`)
  assert.deepEqual(
    (body as { tasks: { id: string; reason: string }[] }).tasks.map(({ id, reason }) => ({ id, reason })),
    [{ id, reason: 'shape' }],
  )
  type Listed = {
    shape: string
    pods: number
    transitions: { name: string; held: number; reasons: string[] }[]
  }
  const listed = (await call('GET', `${admin}/v1/machines`)).body as { machines: Listed[] }
  assert.deepEqual(
    listed.machines
      .filter((one) => one.shape === held.shape)
      .map(({ pods, transitions }) => ({
        pods,
        transitions: transitions.map(({ name, held, reasons }) => ({ name, held, reasons })),
      })),
    [
      {
        pods: 0,
        transitions: [
          { name: 'a', held: 0, reasons: [] },
          { name: 'b', held: 1, reasons: ['shape'] },
        ],
      },
    ],
  )
  const { pod: back } = await podOf(shaped('back', ['a', 'b']))
  await untilTask(back, id, ({ result }) => assert.equal(result, 'a:old b:back'))
})

test('a task continues in a new shape that it fits: finished steps stay, and new later steps run', async (t) => {
  const { podOf, untilTask, orphan } = await fleetOn(t)
  const id = await orphan(shaped('old', ['a', 'b'], { b: untilAborted }))
  const { pod } = await podOf(shaped('new', ['a', 'then', 'b', 'last']))
  const task = await untilTask(pod, id, ({ state }) => assert.equal(state, 'done'))
  assert.equal(task.result, 'a:old then:new b:new last:new')
})
