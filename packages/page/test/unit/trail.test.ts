// How a device shows the attempts of a reply.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message, Snapshot } from '@fleetline/client'
import { follow, marksOf, type Trail } from '../../src/trail.ts'

type Turn = NonNullable<Snapshot['turn']>

function openOf(text: string, type = 'text'): Message {
  return {
    id: 'reply',
    role: 'assistant',
    parts: [{ type, text }],
    seq: null,
    delivery: 'open',
    author: { kind: 'agent', id: 'demo' },
    turn: 'turn_1' as Turn['id'],
  }
}

function snapshotOf(turn: Partial<Turn>, ...messages: Message[]): Snapshot {
  return { messages, turn: { id: 'turn_1', ...turn } as Turn } as unknown as Snapshot
}

const running = (attempt: number, pod: string) => ({ state: 'running', attempt, pod }) as const

function told(...steps: readonly (readonly [atMs: number, snapshot: Snapshot])[]): Trail | null {
  return steps.reduce<Trail | null>((trail, [atMs, snapshot]) => follow(trail, snapshot, atMs), null)
}

test('a resumed reply says on which pod it goes on, and how long it was silent', () => {
  const [one, two] = [openOf('a'), openOf('a b')]
  const first = [
    [0, snapshotOf({ state: 'queued', attempt: 0, pod: null })],
    [100, snapshotOf(running(1, 'pod-1'))],
    [300, snapshotOf(running(1, 'pod-1'), one)],
    [3_300, snapshotOf(running(1, 'pod-1'), two)],
  ] as const
  assert.deepEqual(marksOf(told(...first)!, false), [{ isLost: false, text: 'pod-1' }])
  assert.deepEqual(marksOf(told(...first)!, true), [{ isLost: true, text: 'pod-1 · 3.2 s' }])

  const second = [[7_000, snapshotOf(running(2, 'pod-2'), two)]] as const
  assert.deepEqual(
    marksOf(told(...first, ...second)!, false).map(({ text }) => text),
    ['pod-1 · 3.2 s', 'pod-2 takes over'],
  )
  const third = [[7_400, snapshotOf(running(2, 'pod-2'), openOf('a'))]] as const
  const marks = marksOf(told(...first, ...second, ...third)!, false)
  assert.deepEqual(marks, [
    { isLost: true, text: 'pod-1 · 3.2 s' },
    { isLost: false, text: 'resumed on pod-2 after 4.1 s' },
  ])
})

test('a device that comes late shows the attempt that it saw first', () => {
  const trail = told([0, snapshotOf(running(3, 'pod-2'))])
  assert.deepEqual(marksOf(trail!, false), [{ isLost: false, text: 'pod-2 · attempt 3' }])
})

test('a new turn starts a new trail, and without a turn there is none', () => {
  const trail = told([0, snapshotOf(running(3, 'pod-2'))])
  const next = follow(trail, snapshotOf({ id: 'turn_2' as Turn['id'], ...running(1, 'pod-1') }), 5)
  assert.deepEqual(marksOf(next!, false), [{ isLost: false, text: 'pod-1' }])
  assert.equal(follow(trail, { messages: [], turn: null } as unknown as Snapshot, 5), null)
})
