// What `fleetline sessions send` prints of a reply, frame by frame.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatId, type Chunk, type Frame, type Item, type Turn, type TurnState } from '@fleetline/protocol'
import { createReply } from '../../src/cli/sessions/reply.ts'

const UUID = '01980000-0000-7000-8000-000000000000'
const SESSION = formatId('session', 0, UUID)
const [TURN, MESSAGE] = [formatId('turn', 0, UUID), formatId('message', 0, UUID)]
const SEQ = 5

function turn(state: TurnState, attempt: number, answers: Turn['answers'] = { from: 4, to: 6 }): Frame {
  const hasEnded = state === 'done' || state === 'failed'
  const pod = state === 'running' ? `pod-${attempt}` : null
  const error = state === 'failed' ? { code: 'agent_error', message: 'no luck' } : null
  const endedAt = hasEnded ? '2026-01-01T00:00:00.000Z' : null
  const times = { startedAt: '2026-01-01T00:00:00.000Z', retryAt: null, waitsFor: null, endedAt }
  const of = { id: TURN, session: SESSION, epoch: 2, agent: 'a', message: MESSAGE }
  return { type: 'turn', session: SESSION, turn: { ...of, state, attempt, answers, pod, error, ...times } }
}
function said(attempt: number, index: number, ...deltas: string[]): Frame {
  const opening: Chunk[] = index === 0 ? [{ type: 'start' }, { type: 'text-start', id: '1' }] : []
  const chunks = [...opening, ...deltas.map((delta) => ({ type: 'text-delta' as const, id: '1', delta }))]
  return { type: 'chunks', session: SESSION, turn: TURN, attempt, index, count: chunks.length, chunks }
}
function logged(text: string, more: Partial<Item> = {}): Frame {
  const parts = text === '' ? [{ type: 'data-card', data: 1 }] : [{ type: 'text', text }]
  const item: Item = {
    seq: 7,
    id: MESSAGE,
    role: 'assistant',
    parts,
    author: { kind: 'agent' },
    at: '2026-01-01T00:00:00.000Z',
    turn: TURN,
    answers: 6,
    ...more,
  }
  return { type: 'messages', session: SESSION, items: [item], head: item.seq }
}

/** What is printed, and how it ends. Frames after the end are not read. */
function printing(...frames: readonly Frame[]) {
  const [printed, notes]: [string[], string[]] = [[], []]
  const reply = createReply(SEQ, { text: (piece) => printed.push(piece), note: (text) => notes.push(text) })
  const end = frames.reduce<ReturnType<typeof reply.take>>(
    (ended, frame) => ended ?? reply.take(frame),
    undefined,
  )
  if (end?.type === 'answered') reply.finish(end.item)
  return { printed, notes, end: end?.type }
}

test('words are printed as they arrive and the rest with the message, and the reply ends with its turn', () => {
  const told = printing(
    turn('queued', 0, { from: 4, to: null }),
    turn('running', 1, { from: 4, to: null }),
    turn('running', 1),
    said(1, 0, 'one '),
    said(1, 3, 'two '),
    logged('one two three'),
    turn('done', 1),
  )
  assert.deepEqual(told, {
    printed: ['one ', 'two ', 'three\n'],
    notes: [`${TURN} is queued`, `${TURN} is running on pod-1 (attempt 1)`],
    end: 'answered',
  })
})

test('a note says why a turn waits', () => {
  const noteFor = (waitsFor: string) => {
    const queued = turn('queued', 0, { from: 4, to: null })
    assert.ok(queued.type === 'turn')
    return printing({ ...queued, turn: { ...queued.turn, waitsFor } }).notes[0]
  }
  assert.match(
    noteFor('agent_unknown')!,
    /is queued, because no live pod can call the agent \w+: start a pod/,
  )
  assert.match(noteFor('rate_limited')!, /is queued, because the agent \w+ is at its limit$/)
  assert.match(noteFor('later')!, /is queued, because the agent \w+ asked to be called later$/)
  assert.match(noteFor('agent_error')!, /is queued, because its last attempt failed \(agent_error\)$/)
})

test('a later attempt that says the same is printed from where the earlier one ended', () => {
  const again = [turn('queued', 1), turn('running', 2), said(2, 0, 'one '), said(2, 3, 'two ', 'three ')]
  const { printed, notes } = printing(turn('running', 1), said(1, 0, 'one ', 'two '), ...again)
  assert.deepEqual(printed, ['one two ', 'three '])
  assert.equal(notes.at(-1), `${TURN} is running on pod-2 (attempt 2)`)
  const ended = printing(turn('running', 1), said(1, 0, 'one ', 'two'), logged('one two'), turn('done', 2))
  assert.deepEqual(ended.printed, ['one two', '\n'])
})

test('a later attempt with other words is printed from its beginning, with a note, and so is a shorter message', () => {
  const running = [turn('running', 1), said(1, 0, 'one two')]
  const other = printing(...running, turn('running', 2), said(2, 0, 'one'), said(2, 3, ' or more'))
  assert.deepEqual(other.printed, ['one two', '\none or more'])
  assert.match(other.notes.at(-1)!, /something else now/)
  const shorter = printing(...running, logged('one'), turn('done', 2))
  assert.deepEqual(shorter.printed, ['one two', '\none\n'])
})

test('of two open parts, the second is printed after the first', () => {
  const chunks = [
    { type: 'text-start', id: '2' },
    { type: 'text-delta', id: '2', delta: 'B' },
    { type: 'text-delta', id: '1', delta: 'a' },
    { type: 'text-end', id: '1' },
  ] as const
  const both: Frame = { type: 'chunks', session: SESSION, turn: TURN, attempt: 1, index: 3, count: 4, chunks }
  const { printed, notes } = printing(turn('running', 1), said(1, 0, 'A'), both)
  assert.deepEqual(printed, ['A', 'a\nB'])
  assert.equal(notes.length, 1)
})

test('half of a character is not printed', () => {
  const { printed } = printing(turn('running', 1), said(1, 0, 'a\uD83D'), said(1, 3, '\uDE00'))
  assert.deepEqual(printed, ['a', '\u{1F600}'])
})

test('a turn that does not read the message neither replies to it nor ends its reply', () => {
  const before = { from: 3, to: 4 }
  const words = [turn('running', 1, before), said(1, 0, 'not for you'), logged('not for you', { answers: 4 })]
  assert.equal(printing(...words, turn('done', 1, before)).end, undefined)
  assert.deepEqual(printing(...words).printed, [])
  assert.equal(printing(turn('failed', 3, before)).end, undefined)
})

test('a reply can end as failed, as silent, as untold, without any text, or with an error after a gap', () => {
  assert.equal(printing(turn('failed', 3)).end, 'failed')
  assert.equal(printing(turn('done', 1)).end, 'silent')
  assert.equal(printing(turn('running', 1, { from: 6, to: null })).end, 'untold')
  const data = printing(logged(''), turn('done', 1))
  assert.deepEqual(data.printed, [])
  assert.deepEqual(data.notes, ['The reply has no text: [data-card]'])
  const gap = { type: 'gap', session: SESSION, reason: 'diverged', from: 6, to: 0 } as const
  assert.throws(() => printing(gap), /earlier state/)
})
