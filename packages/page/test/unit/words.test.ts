// What the page says about pods, devices and events.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message, Snapshot } from '@fleetline/client'
import type { ScenePod } from '../../../server/src/cli/dev/page/wire.ts'
import { lineOf, linesOf, merged } from '../../src/lines.ts'
import { haltWords, linkWords, podWords } from '../../src/words.ts'

type Turn = NonNullable<Snapshot['turn']>

const POD: ScenePod = {
  name: 'pod-1',
  state: 'ready',
  readySinceMs: 100,
  number: 4,
  isLeader: false,
  term: null,
  isBuried: false,
  beatAgeMs: 400,
  wakesInMs: null,
  endedAgoMs: null,
  how: null,
}
const TURN = { id: 'turn_1', state: 'running', pod: 'pod-1', attempt: 2, endedAt: null } as Turn

test('a pod says what it does, or what was done to it', () => {
  const words = (change: Partial<ScenePod>, turn: Turn | null = null, devices: string[] = []) =>
    podWords({ ...POD, ...change }, { turn, sinceMs: 200 }, devices)
  assert.equal(words({}, null, ['laptop', 'phone']), 'beat 0.4 s ago · laptop · phone')
  assert.equal(words({ beatAgeMs: null }), 'joins the fleet')
  assert.equal(words({}, TURN), 'writes the reply · attempt 2')
  assert.equal(words({ name: 'pod-2' }, TURN), 'beat 0.4 s ago')
  assert.equal(words({ readySinceMs: 300 }, TURN), 'beat 0.4 s ago') // the turn ran before its restart
  assert.equal(words({ state: 'paused', wakesInMs: 10_400 }, TURN), 'paused · wakes in 11 s')
  assert.equal(
    words({ state: 'waiting', how: 'SIGKILL', endedAgoMs: 3_000, isBuried: true }),
    'killed 3.0 s ago · buried',
  )
  assert.equal(words({ state: 'waiting', how: 'exit 0', endedAgoMs: 0 }), 'ended 0.0 s ago')
})

test('a reply says why it does not go on', () => {
  const words = (turn: Turn, ...pods: ScenePod[]) => haltWords({ turn, sinceMs: 200 }, pods)
  assert.equal(words(TURN, POD), null)
  assert.match(words(TURN, { ...POD, state: 'paused' })!, /^is paused/)
  assert.match(words(TURN, { ...POD, state: 'starting', readySinceMs: null })!, /^is gone/)
  assert.match(words(TURN, { ...POD, readySinceMs: 300 })!, /^is gone/) // it has been started again
  assert.equal(words({ ...TURN, state: 'queued', pod: null }), 'waits for a pod')
  assert.equal(words({ ...TURN, state: 'queued', pod: null, attempt: 0 }), null)
  assert.equal(words({ ...TURN, endedAt: '2026-01-01T00:00:00Z' }), null)
})

test('a device names the pod that it is connected to, or says why there is none', () => {
  const words = (connection: Snapshot['connection'], pod: string | null = 'pod-1') =>
    linkWords({ connection, refusal: null }, pod, 'pod-1')
  assert.deepEqual(words('live'), ['good', 'pod-1'])
  assert.deepEqual(words('live', 'pod-2'), ['warn', 'moved to pod-2'])
  assert.deepEqual(words('stale'), ['warn', 'reconnects'])
  assert.deepEqual(words('offline'), ['bad', 'offline'])
  assert.deepEqual(
    linkWords(
      { connection: 'refused', refusal: { code: 'not_found', text: 'There is none.' } },
      null,
      'pod-1',
    ),
    ['bad', 'There is none.'],
  )
})

test('new events of a session are told once, and messages from before the page was opened are not', () => {
  const message = (seq: number, role: Message['role'], at: string) =>
    ({ id: `m${seq}`, seq, role, at, delivery: 'sent', parts: [] }) as unknown as Message
  const openedMs = Date.parse('2026-01-01T00:00:10Z')
  const empty = { head: 0, messages: [], turn: null } as unknown as Snapshot
  const [old, asked, reply] = [
    message(1, 'user', '2026-01-01T00:00:09Z'),
    message(2, 'user', '2026-01-01T00:00:11Z'),
    message(3, 'assistant', '2026-01-01T00:00:12Z'),
  ]
  const later = { head: 3, messages: [old, asked, reply], turn: TURN } as unknown as Snapshot
  const before = { name: 'laptop', openedMs, snapshot: empty, pod: 'pod-1', lines: [] }
  const told = linesOf(before, { snapshot: later, pod: 'pod-2' }, 20)
  assert.deepEqual(
    told.map(({ text }) => text),
    [
      'the laptop hears through pod-2 now',
      'seq 2: a message is committed',
      'seq 3: the reply is committed',
      'pod-1 takes the turn again, attempt 2',
    ],
  )
  assert.deepEqual(
    linesOf({ ...before, snapshot: later, pod: 'pod-2' }, { snapshot: later, pod: 'pod-2' }, 30),
    [],
  )
})

const line = (message: string, fields = {}) =>
  lineOf({ number: 1, at: '2026-01-01T00:00:00Z', source: 'pod-2', level: 'warn', message, fields })

test('events of the fleet become sentences, and unknown events are shown as they are', () => {
  const dead = line('counts a pod as dead', { pod: 4, term: 3, duration_ms: 5_012 })
  assert.equal(dead.tone, 'bad')
  assert.equal(dead.text, 'pod-2 counts no. 4 as dead, 5.0 s after its last beat')
  assert.equal(line('is paused for 20 s').text, 'pod-2 is paused for 20 s')
  assert.equal(line('something new', { reason: 'why' }).text, 'pod-2: something new (why)')
  assert.equal(line('constructor').text, 'pod-2: constructor')
  assert.match(line('ended', { reason: 'exit 1, see its log' }).text, /exit 1, see its log/)
})

test('lines of several sources are merged in order of time, and only the last ones are kept', () => {
  const dead = line('counts a pod as dead', { pod: 4, term: 3, duration_ms: 5_012 })
  assert.deepEqual(
    merged(
      2,
      [{ ...dead, atMs: 3 }],
      [
        { ...dead, atMs: 1 },
        { ...dead, atMs: 2 },
      ],
    ).map(({ atMs }) => atMs),
    [2, 3],
  )
})
