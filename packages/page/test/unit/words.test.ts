// What the page says about pods, devices and events.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message, Snapshot } from '@fleetline/client'
import type { ScenePod } from '../../../server/src/cli/dev/page/wire.ts'
import { lineOf, linesOf, merged, worthTelling } from '../../src/lines.ts'
import { haltWords, linkWords, podWords, waitWords } from '../../src/words.ts'

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
const TURN = {
  id: 'turn_1',
  state: 'running',
  pod: 'pod-1',
  attempt: 2,
  agent: 'demo',
  startedAt: '2026-01-01T00:00:11Z',
  waitsFor: null,
  retryAt: null,
  endedAt: null,
} as Turn

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
  const words = (turn: Turn, ...pods: ScenePod[]) => haltWords({ turn, sinceMs: 200 }, pods, 0)
  assert.equal(words(TURN, POD), null)
  assert.match(words(TURN, { ...POD, state: 'paused' })!, /^is paused/)
  assert.match(words(TURN, { ...POD, state: 'starting', readySinceMs: null })!, /^is gone/)
  assert.match(words(TURN, { ...POD, readySinceMs: 300 })!, /^is gone/) // it has been started again
  assert.equal(words({ ...TURN, state: 'queued', pod: null }), 'waits for a pod')
  assert.equal(words({ ...TURN, state: 'queued', pod: null, attempt: 0 }), null)
  assert.equal(words({ ...TURN, endedAt: '2026-01-01T00:00:00Z' }), null)
})

test('a reply without words says what it waits for', () => {
  const nowMs = Date.parse('2026-01-01T00:00:20Z')
  const words = (turn: Partial<Turn>) => waitWords({ ...TURN, ...turn }, nowMs)
  const queued = { state: 'queued', pod: null, retryAt: '2026-01-01T00:00:22Z' } as const
  assert.equal(words({}), 'waits for the first words of the agent demo')
  assert.equal(words({ ...queued, retryAt: null }), 'waits for a pod')
  assert.equal(
    words({ ...queued, waitsFor: 'rate_limited' }),
    'waits: the agent demo is at its limit · next attempt in 2.0 s',
  )
  assert.equal(
    words({ ...queued, waitsFor: 'agent_unknown', retryAt: null }),
    'waits: no pod has the agent demo',
  )
  assert.match(words({ ...queued, waitsFor: 'agent_failed' }), /^waits after an error \(agent_failed\)/)
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
      'the laptop is connected to pod-2 now',
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

test('a line has the time of its event, and a turn from before the page was opened has none', () => {
  const at = (second: number) => `2026-01-01T00:00:${second}Z`
  const openedMs = Date.parse(at(10))
  const empty = { head: 0, messages: [], turn: null } as unknown as Snapshot
  const before = { name: 'laptop', openedMs, snapshot: empty, pod: null, lines: [] }
  const stopped = { ...TURN, state: 'stopped', endedAt: at(13) } as Turn
  const asked = { id: 'm1', seq: 1, role: 'user', at: at(11), parts: [] } as unknown as Message
  const snapshot = { head: 1, messages: [asked], turn: stopped } as unknown as Snapshot
  const told = linesOf(before, { snapshot, pod: null }, Date.parse(at(59)))
  assert.deepEqual(
    told.map(({ atMs, text }) => [atMs, text]),
    [
      [Date.parse(at(11)), 'seq 1: a message is committed'],
      [Date.parse(at(13)), 'somebody stops the turn: it can write no more'],
    ],
  )
  const late = { ...before, openedMs: Date.parse(at(50)) }
  assert.deepEqual(linesOf(late, { snapshot, pod: null }, Date.parse(at(59))), [])
})

const event = (message: string, fields = {}) => ({
  number: 1,
  at: '2026-01-01T00:00:00Z',
  source: 'pod-2',
  level: 'warn',
  message,
  fields,
})
const line = (message: string, fields = {}) => lineOf(event(message, fields))

test('a stop is told as a stop, and only a takeover as a fenced write', () => {
  const fenced = (task: string) =>
    event('an attempt that was taken over or cancelled changed nothing', { task })
  const halted = event('a stopped turn has halted', { task: 'tsk_1', duration_ms: 40 })
  const told = worthTelling([fenced('tsk_1'), fenced('tsk_2'), halted, event('ready')], null)
  assert.deepEqual(
    told.map((event) => lineOf(event).text),
    [
      'pod-2 comes too late with a write: fenced, nothing changed',
      'pod-2: the agent of the stopped turn has ended, 0.0 s after the stop',
    ],
  )
  const takenOver = fenced('tsk_1')
  const shown = worthTelling([takenOver, fenced('tsk_1')], 'turn_1')
  assert.equal(shown.length, 1, 'a turn that the device knows to be stopped')
  assert.equal(shown[0], takenOver)
})

test('events of the fleet become sentences, and unknown events are shown as they are', () => {
  const dead = line('counts a pod as dead', { pod: 4, term: 3, duration_ms: 5_012 })
  assert.equal(dead.tone, 'bad')
  assert.equal(dead.text, 'pod-2 counts no. 4 as dead, 5.0 s after its last beat')
  assert.equal(line('loaded', { data: { tasks: ['a', 'b'], agents: ['c'] } }).text, 'pod-2 loads a, b, c')
  assert.equal(
    line('a task is dead', { machine: 'count', code: 'ENOENT' }).text,
    'pod-2: a task of count is dead (ENOENT); the terminal shows why',
  )
  assert.equal(
    line('an agent failed', { data: { agent: 'writer' }, code: 'failed', isThrown: true }).text,
    'pod-2: the agent writer has failed (failed); the terminal shows why',
  )
  assert.equal(
    line('an agent failed', { data: { agent: 'writer' }, code: 'agent_error', reason: 'status 500' }).text,
    'pod-2: the agent writer has failed (status 500)',
  )
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
