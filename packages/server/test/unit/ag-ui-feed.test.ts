// What a reader of AG-UI events is told when messages leave a conversation, or are many, while a reply is on its way.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Frame, Id, Item, Turn } from '@fleetline/protocol'
import { AgUiFeed, type FeedStep } from '../../src/gateway/ag-ui/ag-ui-feed.ts'

const SESSION = 'ses_1' as Id<'session'>
const LIVE: Turn = {
  id: 'turn_1' as Id<'turn'>,
  session: SESSION,
  state: 'running',
  epoch: 1,
  attempt: 1,
  agent: 'a',
  message: 'msg_1' as Id<'message'>,
  answers: { from: 1, to: 1 },
  pod: null,
  startedAt: 'now',
  retryAt: null,
  waitsFor: null,
  endedAt: null,
  error: null,
}
const feed = () => new AgUiFeed({ thread: SESSION, seq: 0, resumed: 'between', mark: () => '-x' })
const said = (seq: number, text: string, more: Partial<Item> = {}): Item => ({
  seq,
  id: `u${seq}`,
  role: 'user',
  parts: [{ type: 'text', text }],
  author: { kind: 'user' },
  at: 'now',
  ...more,
})
const reply = (seq: number, turn: Turn, more: Partial<Item> = {}) =>
  said(seq, 'A reply.', { id: turn.message, role: 'assistant', turn: turn.id, ...more })
const items = (...all: Item[]): Frame => ({
  type: 'messages',
  session: SESSION,
  items: all,
  head: all.at(-1)!.seq,
})
const turn = (state: Turn): Frame => ({ type: 'turn', session: SESSION, turn: state })
const words = (attempt: number): Frame => ({
  type: 'chunks',
  session: SESSION,
  turn: LIVE.id,
  attempt,
  index: 0,
  count: 2,
  chunks: [
    { type: 'text-start', id: '1' },
    { type: 'text-delta', id: '1', delta: `attempt ${attempt}` },
  ],
})
const feedAll = (one: AgUiFeed, ...frames: Frame[]): FeedStep[] => frames.flatMap((frame) => one.take(frame))
const textOf = (steps: readonly FeedStep[]) => JSON.stringify(steps)
const ends = (steps: readonly FeedStep[]) =>
  steps.flatMap((step) => ('outcome' in step ? [step['outcome']] : 'code' in step ? [step['code']] : []))

test('a message that waits for the end of a reply and is erased meanwhile is not sent', () => {
  const one = feed()
  const steps = feedAll(one, items(said(1, 'hi')), turn(LIVE), words(1), items(said(2, 'SECRET')))
  assert.ok(!textOf(steps).includes('SECRET'))
  const rest = feedAll(
    one,
    { type: 'erased', session: SESSION, seqs: [2] },
    words(2),
    items(reply(3, LIVE)),
    turn({ ...LIVE, state: 'done', endedAt: 'now' }),
  )
  assert.ok(!textOf(rest).includes('SECRET'))
})

test('a message that waits and is edited meanwhile is sent once, as it is now', () => {
  const one = feed()
  feedAll(one, items(said(1, 'hi')), turn(LIVE), items(said(2, 'typo')))
  const rest = feedAll(
    one,
    items(said(3, 'edited', { replaces: [[2, 2]] })),
    turn({ ...LIVE, state: 'stopped', endedAt: 'now' }),
  )
  assert.ok(!textOf(rest).includes('typo'))
})

test('if very many messages come during a reply, the reader gets all of them', () => {
  const one = feed()
  feedAll(one, items(said(1, 'hi')), turn(LIVE))
  const many = Array.from({ length: 100 }, (_, n) => items(said(n + 2, `message ${n}`)))
  const steps = feedAll(one, ...many, turn({ ...LIVE, state: 'stopped', endedAt: 'now' }))
  const snapshots = steps.filter(({ type }) => type === 'snapshot')
  assert.deepEqual(snapshots.at(-1), { type: 'snapshot', before: 102, without: [] })
})

test('of two turns that end in one page, each ends with its own outcome', () => {
  const next: Turn = { ...LIVE, id: 'turn_2' as Id<'turn'>, message: 'msg_2' as Id<'message'>, epoch: 2 }
  const one = feed()
  const over = (of: Turn, state: 'done' | 'failed') =>
    turn({
      ...of,
      state,
      endedAt: 'now',
      error: state === 'failed' ? { code: 'x', message: 'It failed.' } : null,
    })
  const steps = feedAll(
    one,
    items(said(1, 'hi')),
    turn(LIVE),
    items(reply(2, LIVE), said(3, 'again'), reply(4, next, { status: 'failed' })),
    over(LIVE, 'done'),
    over(next, 'failed'),
  )
  assert.deepEqual(ends(steps), [{ type: 'success' }, { type: 'success' }, 'failed'])
})

// A reader that comes back while a turn is live.
const back = (resumed: 'run' | 'pause', seq = 1) =>
  new AgUiFeed({ thread: SESSION, seq, resumed, mark: () => '-x' })
const typesOf = (steps: readonly FeedStep[]) =>
  steps.map((step) => ('code' in step ? `${step.type} ${String(step['code'])}` : step.type))
const over = (state: 'done' | 'stopped' = 'done') => turn({ ...LIVE, state, endedAt: 'now' })

test('a reader that was cut in the middle of a run is told so, and gets a snapshot without the reply, then the reply from its beginning', () => {
  const one = back('run')
  assert.deepEqual(typesOf(one.begin(LIVE)), ['RUN_ERROR resumed', 'RUN_STARTED', 'snapshot'])
  assert.ok(one.isInside)
  const steps = feedAll(one, turn(LIVE), words(1))
  assert.deepEqual(typesOf(steps), ['TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT'])
})

test('a reader that was cut in a pause between runs gets no end of a run that it has not begun', () => {
  assert.deepEqual(typesOf(back('pause').begin(LIVE)), ['RUN_STARTED', 'snapshot'])
})

test('a reader comes back while a turn is live, and another message waits: the snapshot leaves it out, the next run carries it', () => {
  const one = back('run')
  one.begin(LIVE)
  const steps = feedAll(one, words(1), items(said(2, 'LATER')))
  assert.ok(!textOf(steps).includes('LATER'))
  const rest = feedAll(one, items(reply(3, LIVE, { parts: [{ type: 'text', text: 'attempt 1' }] })), over())
  assert.deepEqual(typesOf(rest), ['TEXT_MESSAGE_END', 'RUN_FINISHED', 'RUN_STARTED', 'RUN_FINISHED'])
  const { input } = rest[2] as { readonly input?: { readonly messages: readonly unknown[] } }
  assert.deepEqual(input!.messages, [{ id: 'u2', role: 'user', content: 'LATER' }])
})

test('a reader comes back and the next attempt begins: the run ends with `restarted`, and a snapshot takes the words away', () => {
  const one = back('run')
  one.begin(LIVE)
  feedAll(one, words(1))
  assert.deepEqual(typesOf(feedAll(one, words(2))), [
    'RUN_ERROR restarted',
    'RUN_STARTED',
    'snapshot',
    'TEXT_MESSAGE_START',
    'TEXT_MESSAGE_CONTENT',
  ])
})

test('a reader comes back and the live turn is stopped before it has said anything: the run is cancelled', () => {
  const one = back('run')
  one.begin(LIVE)
  assert.deepEqual(ends(feedAll(one, over('stopped'))), [{ type: 'cancelled' }])
  assert.ok(!one.isInside)
})
