import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TASK_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'
import { Rejected, Retry } from '../../src/errors.ts'
import { createBell } from '../../src/lib/bell.ts'
import { durationMs } from '../../src/lib/duration.ts'
import type { Pod } from '../../src/pod.ts'
import { task } from '../../src/machine/definition.ts'
import { faultOf, readThrown, retryMs } from '../../src/task/fault.ts'
import { isMachine, type Machine } from '../../src/task/machine.ts'
import { countFreeSlots } from '../../src/task/free-slots.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { manualClock } from '../support/clock.ts'
import { around, CLAIM } from '../support/machines.ts'

test('a pod takes its free slots, fewer as its loop passes 80 %, and a tenth at least if it runs nothing', () => {
  const room = (slots: number, running: number, utilisation: number) =>
    countFreeSlots({ slots, running, utilisation })
  assert.deepEqual([room(50, 0, 0), room(50, 20, 0.8), room(50, 60, 0)], [50, 30, 0])
  assert.deepEqual([room(50, 10, 0.9), room(50, 10, 0.95), room(50, 10, 1)], [20, 10, 0])
  assert.deepEqual([room(50, 0, 1), room(1, 0, 1)], [5, 1], 'work that keeps the loop busy goes on')
  assert.equal(room(10_000, 0, 0), 500, 'of one claim')
})

test('a retry comes after half of its step to all of it, and the steps double up to 15 minutes', () => {
  const at = (unit: number) => ({ unit: () => unit, bytes: () => new Uint8Array() })
  assert.deepEqual(
    [1, 2, 3, 4, 11, 900].map((spent) => retryMs(spent, at(1))),
    [1_000, 2_000, 4_000, 8_000, 900_000, 900_000],
  )
  assert.equal(retryMs(3, at(0)), 2_000)
})

test('lengths of time are written as people write them, and nothing else is taken', () => {
  const written = ['500ms', '30s', '5m', '2h', '1d']
  assert.deepEqual(
    written.map((text) => durationMs('timeout', text)),
    [500, 30_000, 300_000, 7_200_000, 86_400_000],
  )
  for (const text of ['', '5', 'm', '5 m', '-1s', '1.5s', '1w', '9999999999s'])
    assert.throws(() => durationMs('timeout', text), /timeout: must be a length of time/)
})

test('a bell rung while nobody waits wakes the next who does', async () => {
  const clock = manualClock()
  const bell = createBell(clock)
  bell.ring()
  bell.ring()
  assert.equal(await bell.wait(1_000), true)
  const waited = bell.wait(1_000)
  await clock.advance(1_000)
  assert.equal(await waited, false, 'two rings were one')
  const woken = bell.wait(1_000)
  bell.ring()
  assert.equal(await woken, true)
})

test('a definition that cannot be run is refused where it is written', () => {
  const run = async () => undefined
  assert.throws(() => task('with space', run), /its name must match/)
  assert.throws(() => task('mail', run, { queue: '' }), /queue must match/)
  assert.throws(() => task('mail', run, { priority: 8 }), /priority must be from 0 to 7/)
  assert.throws(() => task('mail', run, { attempts: 0 }), /attempts must be from 1 to/)
  assert.throws(() => task('mail', run, { timeout: '2d' }), /timeout must be from 1ms to 1d/)
  assert.throws(() => task('mail', run, { timeout: 'soon' }), Rejected)
  assert.ok(isMachine(task('mail', run)))
  assert.deepEqual([{}, null, 'mail', run].filter(isMachine), [])
})

test('whatever was thrown becomes an error that can be stored', () => {
  const clock = manualClock()
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  const thrown: readonly unknown[] = [
    new Error('\0 half a pair: \ud800'),
    Object.assign(new Error('x'), { message: { no: 'text' } }),
    new Error('\u001b'.repeat(100_000)),
    '世'.repeat(100_000),
    Object.create(null),
    undefined,
    Symbol('s'),
    new Retry('unavailable', 'later', { afterMs: 5n as unknown as number }),
    Object.defineProperty(new Error('x'), 'message', {
      get: () => {
        throw new Error('no')
      },
    }),
    revoked.proxy,
  ]
  for (const error of thrown) {
    const text = faultOf({ ...readThrown(error, clock), attempt: 1, clock })
    assert.ok(Buffer.byteLength(text) <= TASK_LIMITS.errorBytes)
    assert.ok(!text.includes('\\u0000') && !/\\ud800/i.test(text), text)
    assert.match((JSON.parse(text) as { code: string }).code, /^(failed|unavailable)$/)
    assert.equal(readThrown(error, clock).delayMs, undefined)
  }
})

/** Types alone: this is compiled, not called. */
export async function typed(pod: Pod): Promise<void> {
  const mail = task('mail', async (c) => c.input.at.getTime(), {
    input: z.object({ to: z.string(), at: z.coerce.date<string>() }),
  })
  const loose = task('loose', (c) => c.log('called', { with: 'nothing' }))
  const definitions: readonly Machine[] = [mail, loose]
  await pod.enqueue({ machine: mail, input: { to: 'ann', at: '2026-11-16' }, priority: 5 })
  await pod.enqueue({ machine: loose })
  await pod.enqueueAll([{ machine: 'by.name', input: { any: definitions.length } }])
  const count = task('count', (c) => c.input.n, { input: z.object({ n: z.number() }) })
  const mails = ['ann', 'bob'].map((to) => ({ machine: mail, input: { to, at: '2026-11-16' } }))
  await pod.enqueueAll([{ machine: count, input: { n: 1 } }, ...mails, { machine: 'by.name' }])
  // @ts-expect-error: the input of another task
  await pod.enqueueAll([{ machine: count, input: { to: 'ann' } }, { machine: loose }])
  // @ts-expect-error: a field is missing
  await pod.enqueue({ machine: mail, input: { to: 'ann' } })
  // @ts-expect-error: its input is missing
  await pod.enqueue({ machine: mail })
  // @ts-expect-error: a Map is no JSON
  task('map', async () => new Map())
  // @ts-expect-error: a Date is no JSON
  task('date', () => ({ at: new Date() }))
}

test('an attempt whose time is over is aborted and tried again, also if its handler returns because of that', async () => {
  const clock = manualClock()
  const polite = task('polite', async (c) => {
    await new Promise((resolve) => c.signal.addEventListener('abort', resolve))
    return 'half done'
  })
  const deaf = task('deaf', () => new Promise<void>(() => undefined))
  for (const definition of [polite, deaf]) {
    const settled = definition.open().run(CLAIM, around({ clock }))
    await new Promise((resolve) => setImmediate(resolve))
    await clock.advance(300_000)
    await clock.advance(2_000) // the grace of one that does not listen
    const settlement = await settled
    assert.equal(settlement.type, 'retry')
    assert.match(JSON.stringify(settlement), /"delayMs":2000.*took too long/)
  }
})

test('an attempt that the pod ends is handed back, whatever its handler makes of it', async () => {
  const stop = new Error('drain')
  const ends: readonly (() => string)[] = [
    () => 'half done',
    () => {
      throw stop
    },
  ]
  for (const end of ends) {
    const definition = task('slow', async (c) => {
      await new Promise((resolve) => c.signal.addEventListener('abort', resolve))
      return end()
    })
    const surroundings = around()
    const settled = definition.open().run(CLAIM, surroundings)
    await new Promise((resolve) => setImmediate(resolve))
    surroundings.ending.abort(stop)
    assert.deepEqual(await settled, { type: 'back' })
  }
})

test('a schema that never answers is cut off by the timeout; one that refuses makes the task dead', async () => {
  const clock = manualClock()
  const run = () => assert.fail('it does not come to that')
  const schema = (validate: () => Promise<never>) => ({ input: { '~standard': { validate } } })
  const hangs = task(
    'hangs',
    run,
    schema(() => new Promise<never>(() => undefined)),
  )
  const settled = hangs.open().run(CLAIM, around({ clock }))
  await clock.advance(302_000)
  assert.equal((await settled).type, 'retry')
  const refuses = task('refuses', run, { input: z.string() })
  assert.equal((await refuses.open().run(CLAIM, around({ clock }))).type, 'dead')
  const broken = task(
    'broken',
    run,
    schema(() => Promise.reject(new Error('no network'))),
  )
  assert.equal((await broken.open().run(CLAIM, around({ clock }))).type, 'retry')
})

test('what a handler logs is a fixed phrase and bounded data; nothing of it ends the attempt', async () => {
  const lines: string[] = []
  const circle: Record<string, never> = {}
  Object.assign(circle, { circle })
  const talks = task('talks', (c) => {
    c.log('page read', { page: 1 })
    c.log('too much', 'x'.repeat(10_000))
    c.log('no JSON', circle)
  })
  const log = createLog({ level: 'info', destination: { write: (line) => void lines.push(line) } })
  const settlement = await talks.open().run(CLAIM, around({ log }))
  assert.equal(settlement.type, 'done')
  const said = lines.map((line) => JSON.parse(line) as { msg: string; data: unknown })
  const hidden = 'not shown: over 4096 bytes, or no JSON'
  assert.deepEqual(
    said.map(({ msg, data }) => [msg, data]),
    [
      ['page read', { page: 1 }],
      ['too much', hidden],
      ['no JSON', hidden],
    ],
  )
})
