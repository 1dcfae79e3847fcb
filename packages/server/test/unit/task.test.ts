import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TASK_LIMITS } from '@fleetline/protocol'
import { z } from 'zod'
import { Rejected, Retry } from '../../src/errors.ts'
import { createBell } from '../../src/lib/bell.ts'
import { durationMs } from '../../src/lib/duration.ts'
import type { Pod } from '../../src/pod.ts'
import { task } from '../../src/machine/definition.ts'
import { faultFields, faultOf, readThrown, retryMs } from '../../src/task/fault.ts'
import { isMachine, type Machine } from '../../src/task/machine.ts'
import { countFreeSlots } from '../../src/task/free-slots.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { manualClock } from '../support/clock.ts'
import { around, CLAIM } from '../support/machines.ts'

test('a pod takes its free slots, but fewer once its event loop is over 80 % busy', () => {
  const room = (slots: number, running: number, utilisation: number) =>
    countFreeSlots({ slots, running, utilisation })
  assert.equal(room(50, 0, 0), 50)
  assert.equal(room(50, 20, 0.8), 30)
  assert.equal(room(50, 60, 0), 0)
  assert.equal(room(50, 10, 0.9), 20)
  assert.equal(room(50, 10, 0.95), 10)
  assert.equal(room(50, 10, 1), 0)
  assert.equal(room(50, 0, 1), 5, 'a pod that runs nothing takes a tenth, so busy work continues')
  assert.equal(room(1, 0, 1), 1, 'a pod that runs nothing takes at least one task')
  assert.equal(room(10_000, 0, 0), 500, 'the most in one claim')
})

test('a retry waits for half of its step to all of it, and the steps double up to 15 minutes', () => {
  const at = (unit: number) => ({ unit: () => unit, bytes: () => new Uint8Array() })
  assert.deepEqual(
    [1, 2, 3, 4, 11, 900].map((spent) => retryMs(spent, at(1))),
    [1_000, 2_000, 4_000, 8_000, 900_000, 900_000],
  )
  assert.equal(retryMs(3, at(0)), 2_000)
})

test('a length of time is a whole number with a unit, and nothing else is accepted', () => {
  const written = ['500ms', '30s', '5m', '2h', '1d']
  assert.deepEqual(
    written.map((text) => durationMs('timeout', text)),
    [500, 30_000, 300_000, 7_200_000, 86_400_000],
  )
  for (const text of ['', '5', 'm', '5 m', '-1s', '1.5s', '1w', '9999999999s'])
    assert.throws(() => durationMs('timeout', text), /timeout: must be a length of time/)
})

test('a bell that rings while nobody waits wakes the next waiter', async () => {
  const clock = manualClock()
  const bell = createBell(clock)
  bell.ring()
  bell.ring()
  assert.equal(await bell.wait(1_000), true)
  const waited = bell.wait(1_000)
  await clock.advance(1_000)
  assert.equal(await waited, false, 'two rings count as one')
  const woken = bell.wait(1_000)
  bell.ring()
  assert.equal(await woken, true)
})

test('a task that cannot run is rejected where it is defined', () => {
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

test('every thrown value becomes an error that can be stored', () => {
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
    assert.ok(Buffer.byteLength(text) <= TASK_LIMITS.errorBytes, `${Buffer.byteLength(text)} bytes`)
    assert.ok(!text.includes('\\u0000'), text)
    assert.doesNotMatch(text, /\\ud800/i)
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

test('an attempt that times out is aborted and retried, even if its handler then returns', async () => {
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
    await clock.advance(2_000) // the grace for a handler that ignores its signal
    const settlement = await settled
    assert.equal(settlement.type, 'retry')
    assert.match(JSON.stringify(settlement), /"delayMs":2000.*took too long/)
  }
})

test('an attempt that the pod ends is handed back, whether its handler returns or throws', async () => {
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

test('a schema that hangs or throws makes its task retry, and one that rejects the input makes it dead', async () => {
  const clock = manualClock()
  const run = () => assert.fail('the body must not run')
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

test('a handler logs a fixed phrase with limited data, and logging never ends its attempt', async () => {
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
    said.map(({ msg, data }) => ({ msg, data })),
    [
      { msg: 'page read', data: { page: 1 } },
      { msg: 'too much', data: hidden },
      { msg: 'no JSON', data: hidden },
    ],
  )
})

test('S22: the log has what a handler threw and where, but not a value that PostgreSQL quotes', () => {
  const clock = manualClock()
  const fieldsOf = (error: unknown) => faultFields(faultOf({ ...readThrown(error), attempt: 1, clock }))
  const plain = fieldsOf(new Error('out of paper'))
  assert.equal(plain.code, 'failed')
  assert.match(plain.stack!, /^Error: out of paper\n {4}at .*task\.test\.ts/)
  const quoting = fieldsOf(Object.assign(new Error('invalid: "canary\n    at canary"'), { code: '22P02' }))
  assert.equal(quoting.code, '22P02')
  assert.match(quoting.stack!, /^ {4}at .*task\.test\.ts/)
  assert.doesNotMatch(quoting.stack!, /canary/)
  const long = Object.assign(new Error(`invalid: "${'canary '.repeat(1_000)}"`), { code: '22P02' })
  assert.deepEqual(fieldsOf(long), { code: '22P02' })
  const cut = `${'invalid: "'.padEnd(1_000, 'x')}\n    at canary"`
  assert.deepEqual(fieldsOf(Object.assign(new Error(cut), { code: '22P02' })), { code: '22P02' })
  assert.deepEqual(fieldsOf('out of ink'), { code: 'failed', reason: 'out of ink' })
})
