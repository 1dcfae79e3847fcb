// Taking a pod out of work and back, without PostgreSQL: in which order, and what happens if one comes in the middle of the other.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { createDraining } from '../../src/admin/draining.ts'
import { createMoving, MOVE_MS, type Guest } from '../../src/door/moving.ts'
import { route } from '../../src/door/route.ts'
import { createDoor } from '../../src/door/server.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'
import { depsOf } from '../support/door.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/log.ts'

const DRAIN_MS = 60_000

/** Clients that note what they are told. They leave when they are sent away, and not before. */
function housed(clock = manualClock()) {
  const moving = createMoving({ clock, random: { unit: () => 0.5, bytes: () => new Uint8Array() } })
  const told: string[] = []
  const enter = (name: string) => {
    const leave = { now: () => undefined as void }
    const guest: Guest = {
      ask: (afterMs) => void told.push(`${name} asked ${afterMs}`),
      end: () => {
        told.push(`${name} sent away`)
        queueMicrotask(() => leave.now())
      },
    }
    leave.now = moving.enter('sockets', guest)
    return leave.now
  }
  return { clock, moving, told, enter }
}

/** A pod without its parts. */
function podOf({ clock, moving }: ReturnType<typeof housed>, isServing = true) {
  const does: string[] = []
  let end = Promise.withResolvers<void>()
  const draining = createDraining({
    readiness: { drain: () => void does.push('unready'), undrain: () => void does.push('ready') },
    fleet: { drain: async () => undefined, undrain: () => undefined },
    tasks: {
      drain: async (isLast) => {
        does.push(isLast ? 'ends tasks for good' : 'ends tasks')
        await end.promise
      },
      resume: () => {
        does.push('takes tasks')
        end.resolve()
        end = Promise.withResolvers()
      },
    },
    door: { move: moving.begin, stay: moving.cancel },
    isServing: () => isServing,
    unreadyMs: 5_000,
    drainMs: DRAIN_MS,
    clock,
    log: silentLog(),
  })
  return { draining, does, nothingRuns: () => end.resolve() }
}

test('clients are asked to leave, those that stay are sent away, and one that comes late is sent away at once', async () => {
  const { clock, moving, told, enter } = housed()
  const leave = enter('a')
  enter('b')
  const moved = moving.begin()
  assert.deepEqual(told, ['a asked 20', 'b asked 20'])
  leave()
  enter('late')
  assert.deepEqual([told.at(-1), moving.isOn()], ['late sent away', true])
  await clock.advance(MOVE_MS)
  await moved
  assert.deepEqual(told.at(-1), 'b sent away')
  assert.deepEqual(moving.count(), { sockets: 0, streams: 0 })
  enter('later')
  assert.deepEqual(told.at(-1), 'later sent away', 'also when all have left')
})

test('a download is not cut off: the move waits for its end, up to its limit', async () => {
  const { clock, moving } = housed()
  const end = moving.download()
  let isMoved = false
  const moved = moving.begin(DRAIN_MS).then(() => (isMoved = true))
  await clock.advance(MOVE_MS)
  assert.equal(isMoved, false)
  end()
  await moved
  moving.cancel()
  moving.download()
  const second = moving.begin(DRAIN_MS)
  await clock.advance(DRAIN_MS)
  await second
})

test('a drain that is taken back in the middle of moving leaves the clients alone', async () => {
  const house = housed()
  const { clock, moving, told, enter } = house
  const { draining, does } = podOf(house)
  enter('a')
  draining.begin()
  await clock.advance(5_000)
  assert.deepEqual(told, ['a asked 10'])
  draining.undo()
  await clock.advance(DRAIN_MS)
  assert.deepEqual([told, moving.isOn()], [['a asked 10'], false])
  assert.deepEqual(does, ['unready', 'ends tasks', 'ready', 'takes tasks'])
})

test('drain, undrain, drain: only the last one moves clients, and it waits for `unreadyMs` from its own beginning', async () => {
  const house = housed()
  const { clock, moving, told, enter } = house
  const { draining } = podOf(house)
  enter('a')
  draining.begin()
  await clock.advance(4_000)
  draining.undo()
  draining.begin()
  await clock.advance(4_000)
  assert.deepEqual([told, moving.isOn()], [[], false])
  await clock.advance(1_000)
  assert.deepEqual([told, moving.isOn()], [['a asked 10'], true])
})

test('a stop goes on with the drain of an operator, who cannot take it back any more', async () => {
  const house = housed()
  const { clock, moving, told, enter } = house
  const { draining, does, nothingRuns } = podOf(house)
  enter('a')
  draining.begin()
  await clock.advance(5_000)
  let hasEnded = false
  const ended = draining.end().then(() => (hasEnded = true))
  draining.undo()
  await clock.advance(MOVE_MS)
  assert.deepEqual([told, moving.isOn()], [['a asked 10', 'a sent away'], true], 'clients are asked once')
  assert.deepEqual(does, ['unready', 'ends tasks', 'ends tasks for good'])
  assert.equal(hasEnded, false, 'a task runs')
  nothingRuns()
  await ended
})

test('a pod that is drained before it serves takes no clients later', async () => {
  const house = housed()
  const { moving } = house
  const { draining } = podOf(house, false)
  draining.begin()
  assert.equal(moving.isOn(), true)
  draining.undo()
  assert.equal(moving.isOn(), false)
})

test('a reader that leaves before its stream begins is not waited for', async (t) => {
  const [asked, opening] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let released = 0
  const streamed = (path: string, how: 'events' | 'lines') =>
    route({
      method: 'GET',
      path,
      summary: 'Begins late.',
      access: { audience: 'probe', tenant: 'none' },
      answers: { 200: { means: 'A stream.', [how]: z.object({}) } as never },
      handle: async () => {
        asked.resolve()
        await opening.promise
        const body = async function* () {
          released += 1
          yield* []
        }
        return { status: 200, body }
      },
    })
  const door = createDoor(depsOf([streamed('/v1/events', 'events'), streamed('/v1/lines', 'lines')]))
  await door.start()
  atEnd(t, () => door.stop())
  const leaving = new AbortController()
  const readers = ['events', 'lines'].map((path) =>
    fetch(`http://127.0.0.1:${door.port()}/v1/${path}`, { signal: leaving.signal }).catch(() => undefined),
  )
  await asked.promise
  leaving.abort()
  await Promise.all(readers)
  await new Promise((resolve) => setTimeout(resolve, 100)) // until the door has seen it
  opening.resolve()
  await eventually(() => assert.equal(released, 2), { what: 'the sources to be released' })
  assert.deepEqual(door.clients(), { sockets: 0, streams: 0 })
  await door.move(DRAIN_MS)
})
