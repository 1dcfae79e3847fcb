// Every checker of histories reports each kind of violation that it looks for.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brokenByLog, brokenByReading, type Entry, type Log, type Op } from '../support/history.ts'

const OPS: readonly Op[] = [
  { id: 'a', digest: '1', sentAt: 1, heardAt: 3, ok: 1 },
  { id: 'b', digest: '2', sentAt: 2, heardAt: 4, ok: 2 },
  { id: 'c', digest: '3', sentAt: 5 },
  { id: 'a', digest: '1', sentAt: 6, heardAt: 7, ok: 1 },
  { id: 'd', digest: '4', sentAt: 8, heardAt: 9, fail: 'stale' },
]
const ENTRIES: readonly Entry[] = [
  { seq: 1, id: 'a', digest: '1' },
  { seq: 2, id: 'b', digest: '2' },
]

function log(entries: readonly Entry[], head = entries.length): Log {
  return { head, entries }
}

test('a good history has no violation, whether or not an unanswered message is stored', () => {
  assert.deepEqual(brokenByLog(OPS, log(ENTRIES)), [])
  assert.deepEqual(brokenByLog(OPS, log([...ENTRIES, { seq: 3, id: 'c', digest: '3' }])), [])
})

test('every way to break the log is reported with the code of its invariant', () => {
  const swapped: readonly Op[] = [
    { id: 'a', digest: '1', sentAt: 1, heardAt: 2, ok: 2 },
    { id: 'b', digest: '2', sentAt: 3, heardAt: 4, ok: 1 },
  ]
  const cases: readonly (readonly [number: string, ops: readonly Op[], log: Log])[] = [
    ['L1', OPS, log(ENTRIES.slice(0, 1))],
    ['L1', OPS, log([ENTRIES[0]!, { ...ENTRIES[1]!, digest: '9' }])],
    ['L2', OPS, log([ENTRIES[0]!, { ...ENTRIES[1]!, seq: 3 }])],
    ['L2', OPS, log(ENTRIES, 3)],
    [
      'L3',
      swapped,
      log([
        { seq: 1, id: 'b', digest: '2' },
        { seq: 2, id: 'a', digest: '1' },
      ]),
    ],
    [
      'L3', // sent after seq 2 was acknowledged; the answer was lost, and the repeat is acknowledged at seq 1
      [OPS[1]!, { id: 'c', digest: '3', sentAt: 5 }, { id: 'c', digest: '3', sentAt: 6, heardAt: 7, ok: 1 }],
      log([{ seq: 1, id: 'c', digest: '3' }, ENTRIES[1]!]),
    ],
    ['L4', OPS, log([...ENTRIES, { seq: 3, id: 'b', digest: '2' }])],
    ['L4', [...OPS, { id: 'a', digest: '1', sentAt: 10, heardAt: 11, ok: 2 }], log(ENTRIES)],
    ['L5', OPS, log([...ENTRIES, { seq: 3, id: 'd', digest: '4' }])],
    ['L5', OPS, log([...ENTRIES, { seq: 3, id: 'x', digest: '5' }])],
  ]
  for (const [number, ops, found] of cases)
    assert.ok(
      brokenByLog(ops, found).some((broken) => broken.startsWith(number)),
      `${number}: ${JSON.stringify(found)}`,
    )
})

test('the check of readers finds a hole, a repeat, a message that was never stored, and another message at a seq', () => {
  const entries = ['a', 'b', 'c'].map((id, index) => ({ seq: index + 1, id, digest: id }))
  const told = (text: string) => [...text].map((id) => ({ seq: 'abcd'.indexOf(id) + 1, id }))
  const broken = (after: number, items: { seq: number; id: string }[]) =>
    brokenByReading({ after, items }, { head: 3, entries }).map((line) => line.slice(0, 2))
  assert.deepEqual(broken(0, told('abc')), [])
  assert.deepEqual(broken(1, told('bc')), [])
  assert.deepEqual(broken(0, told('ac')), ['D1'])
  assert.deepEqual(broken(0, told('aab')), ['D1'])
  assert.deepEqual(broken(1, told('bcd')), ['L9'])
  assert.deepEqual(broken(0, [{ seq: 1, id: 'b' }]), ['L6'])
})
