// D1 D4 D6: a session as a stream of AG-UI runs, over random conversations with streams of every chunk, attempts that begin again, stops, failures
// and replies that are written anew. The connection is cut anywhere, and the reader comes back with the id of its last event. AG-UI's own
// client accepts every stream, and ends with the messages of the conversation.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import type { Frame, Id, Item, SeqRange, Turn } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { json, legalStream } from '../../../protocol/test/support/streams.ts'
import { messagesForReader, type AgUiMessage } from '../../src/ag-ui/messages.ts'
import { areAlike } from '../../src/ag-ui/reader-messages.ts'
import { inOrder } from '../../src/turn/gather.ts'
import { placesOf, type AgUiCursor } from '../../src/gateway/ag-ui/cursor.ts'
import { AgUiFeed, type FeedStep } from '../../src/gateway/ag-ui/ag-ui-feed.ts'
import { faultsOf, readByAgUi } from '../support/ag-ui.ts'
import { chunkFrames, seenOf, storedReply } from '../support/reply-frames.ts'

const SESSION = 'ses_1' as Id<'session'>
const exchanges = fc.array(
  fc.record({
    asked: fc.integer({ min: 1, max: 2 }),
    /** A message that nobody answers. */
    note: fc.boolean(),
    /** Instead of a message: the last reply is written anew. */
    isAgain: fc.boolean(),
    /** A message comes while the reply is written. */
    isInterrupted: fc.boolean(),
    /** The first message is erased while the reply is written. */
    erases: fc.boolean(),
    lost: fc.option(legalStream, { nil: undefined }),
    stream: legalStream,
    sizes: fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 5 }),
    state: fc.constantFrom('done' as const, 'done' as const, 'stopped' as const, 'failed' as const),
  }),
  { minLength: 1, maxLength: 3 },
)
type Exchange = typeof exchanges extends fc.Arbitrary<readonly (infer One)[]> ? One : never

/** A frame, and where a follower is after it. */
type Told = { readonly frame: Frame; readonly seq: number; readonly ended: number; readonly erased: number }

/** The log of a session and the frames of a follower that was there all the time. */
function play(plan: readonly Exchange[]) {
  const [log, told, gone]: [Item[], Told[], SeqRange[]] = [[], [], []]
  let [ended, erased] = [0, 0]
  const tell = (...frames: readonly Frame[]) =>
    told.push(...frames.map((frame) => ({ frame, seq: log.length, ended, erased })))
  const append = (item: Omit<Item, 'seq' | 'at'>) => {
    const stored: Item = { ...item, seq: log.length + 1, at: 'now' }
    log.push(stored)
    gone.push(...(stored.replaces ?? []))
    tell({ type: 'messages', session: SESSION, items: [stored], head: log.length })
  }
  const ask = (text: string) =>
    append({ id: `u${log.length}`, role: 'user', parts: [{ type: 'text', text }], author: { kind: 'user' } })
  const erase = () => {
    const { parts: _said, ...first } = log[0] ?? ({} as Item)
    if (first.role !== 'user' || first.erased) return
    log[0] = { ...first, parts: [], erased: true }
    erased += 1
    tell({ type: 'erased', session: SESSION, seqs: [1] })
  }
  plan.forEach((exchange, index) => {
    const epoch = index + 1
    const { asked, note, isAgain, isInterrupted, erases, lost, stream, sizes, state } = exchange
    const before = log.findLast(({ turn }) => turn !== undefined)
    const again = isAgain && before ? { replaces: [[before.seq, before.seq] as const] } : {}
    if (!('replaces' in again)) for (let n = 0; n < asked; n += 1) ask(`question ${index} ${n}`)
    if (note) ask('a note')
    const message = `msg_${epoch}` as Id<'message'>
    const seen = seenOf(stream, message)
    const answers = log.length - (note ? 1 : 0)
    const live = turnOf(epoch, message, { ...again, answers: { from: answers, to: answers } })
    const over: Turn = {
      ...live,
      attempt: lost ? 2 : 1,
      state,
      endedAt: 'now',
      error: state === 'failed' ? FAILED : null,
    }
    tell({ type: 'turn', session: SESSION, turn: live })
    if (lost) tell(...chunkFrames(seenOf(lost, message), { turn: live, attempt: 1, sizes }))
    if (isInterrupted) ask('one more thing')
    const frames = chunkFrames(seen, { turn: live, attempt: lost ? 2 : 1, sizes })
    tell(...frames.slice(0, 1))
    if (erases) {
      erase()
      ask('and another thing')
    }
    tell(...frames.slice(1))
    const stored = storedReply(seen, over)
    if (stored)
      append({
        id: message,
        role: 'assistant',
        turn: live.id,
        author: { kind: 'agent' },
        answers,
        ...again,
        ...stored,
      })
    ended = epoch
    tell({ type: 'turn', session: SESSION, turn: over })
  })
  return { log, told, gone }
}

type Played = ReturnType<typeof play>

const FAILED = { code: 'x', message: 'It failed.' }

function turnOf(epoch: number, message: Id<'message'>, more: Pick<Turn, 'replaces' | 'answers'>): Turn {
  return {
    id: `turn_${epoch}` as Id<'turn'>,
    session: SESSION,
    state: 'running',
    epoch,
    attempt: 1,
    agent: 'a',
    message,
    pod: null,
    startedAt: 'now',
    retryAt: null,
    waitsFor: null,
    endedAt: null,
    error: null,
    ...more,
  }
}

/** The messages of the conversation below a seq. */
function conversation(log: readonly Item[], before: number, without: readonly SeqRange[]): AgUiMessage[] {
  const there = inOrder(log).filter(({ seq }) => seq < before)
  const gone = [...without, ...there.flatMap(({ replaces = [] }) => replaces)]
  return there
    .filter(({ seq, parts }) => parts.length > 0 && !gone.some(([from, to]) => from <= seq && seq <= to))
    .flatMap(messagesForReader)
}

type Sent = AgUiCursor & { readonly event: { readonly type: string } }
type Start = AgUiCursor & { readonly live?: Turn | undefined }

/** The events that a reader gets, each with the position that its id says. */
function send(
  feed: ReturnType<Open>,
  { log }: Played,
  told: readonly Told[],
  { at, where, live }: Start,
): Sent[] {
  let before = at
  const batch = (steps: readonly FeedStep[], after: AgUiCursor['at']): Sent[] => {
    const places = placesOf(steps, { before, after, isInside: feed.isInside })
    before = after
    return steps.map((step, index) => ({
      ...places[index]!,
      event: isSnapshot(step) ? snapshotOf(log, step) : step,
    }))
  }
  const first = where === 'between' ? [] : batch(feed.begin(live), at)
  return [
    ...first,
    ...told.flatMap(({ frame, seq, ended, erased }) => batch(feed.take(frame), { seq, ended, erased })),
  ]
}

type Snapshot = Extract<FeedStep, { readonly type: 'snapshot' }>

function isSnapshot(step: FeedStep): step is Snapshot {
  return step.type === 'snapshot'
}

function snapshotOf(log: readonly Item[], { before, without }: Snapshot) {
  const metadata = { '@ag-ui/client': { authoritativeActivityTypes: null } }
  return { type: 'MESSAGES_SNAPSHOT', messages: conversation(log, before, without), metadata }
}

/** What a follower gets that comes back when all is over. */
function afterwards({ log, told }: Played, at: AgUiCursor['at']): Told[] {
  const last = told.at(-1)!
  const items = log.slice(at.seq)
  const page: Frame = { type: 'messages', session: SESSION, items, head: log.length }
  const ends = told.filter(
    ({ frame }) => frame.type === 'turn' && frame.turn.endedAt !== null && frame.turn.epoch > at.ended!,
  )
  const gone = told.filter(({ frame, erased }) => frame.type === 'erased' && erased > at.erased!)
  const place = { seq: log.length, ended: at.ended!, erased: at.erased! }
  return [
    ...(items.length > 0 ? [{ ...place, frame: page }] : []),
    ...gone.map(({ frame, erased }) => ({ ...place, frame, erased })),
    ...ends.map(({ frame }) => ({ ...last, frame })),
  ]
}

const plans = fc.record({
  plan: exchanges,
  cut: fc.option(fc.nat(400), { nil: undefined }),
  joins: fc.nat(30),
})
type Plan = typeof plans extends fc.Arbitrary<infer One> ? One : never
type Open = (at: AgUiCursor) => Pick<AgUiFeed, 'begin' | 'take' | 'isInside'>

/** Undefined: the client has the messages of the conversation. */
async function brokenBy({ plan, cut, joins }: Plan, open: Open): Promise<string | undefined> {
  const played = play(plan)
  const { log, told } = played
  const start = joining(played, Math.min(joins, told.length - 1))
  const sent = send(open({ ...start, where: 'between' }), played, start.told, start)
  const kept = cut === undefined ? sent : sent.slice(0, 1 + (cut % sent.length))
  const last = kept.at(-1)!
  const isWhole = kept.length === sent.length
  const again = isWhole ? [] : send(open(last), played, afterwards(played, last.at), last)
  const events = [...kept, ...again].map(({ event }) => event)
  const end = await readByAgUi(events)
  const wanted = conversation(log, log.length + 1, [])
  const has = withoutLeftovers(json(end.messages) as AgUiMessage[], wanted)
  const faults = [
    ...events.flatMap(faultsOf),
    ...end.warnings,
    ...(end.error === undefined ? [] : [inspect(end.error)]),
  ]
  if (faults.length > 0) return faults.join()
  const isSame = areAlike(sorted(has), sorted(wanted))
  return isSame ? undefined : `has ${JSON.stringify(sorted(has))}, not ${JSON.stringify(sorted(wanted))}`
}

test('D1 D4 D6: the client of AG-UI ends with the messages of the conversation, wherever it is cut', async () => {
  const holds = fc.asyncProperty(plans, async (plan) =>
    assert.equal(await brokenBy(plan, feedFrom), undefined),
  )
  await fc.assert(holds, { numRuns: 100 })
})

class Changed extends AgUiFeed {
  readonly #change: (steps: FeedStep[]) => FeedStep[]
  constructor(at: AgUiCursor, change: (steps: FeedStep[]) => FeedStep[]) {
    super(startAt(at))
    this.#change = change
  }
  override take(frame: Frame): FeedStep[] {
    return this.#change(super.take(frame))
  }
}

const MUTANTS: Readonly<Record<string, Open>> = {
  'no snapshot after the beginning': (at) =>
    new Changed(at, (steps) => steps.filter(({ type }) => type !== 'snapshot')),
  'no end of an attempt that begins again': (at) =>
    new Changed(at, (steps) => steps.filter((step) => !('code' in step && step['code'] === 'restarted'))),
  'resumes as if no part of a reply had arrived': (at) => feedFrom({ ...at, where: 'between' }),
  'resumes as if no run were open': (at) =>
    feedFrom({ ...at, where: at.where === 'run' ? 'pause' : at.where }),
}

for (const [what, open] of Object.entries(MUTANTS))
  test(`mutant: ${what}`, async () => {
    for (const plan of fc.sample(plans, { numRuns: 300, seed: 7 }))
      if ((await brokenBy(plan, open)) !== undefined) return
    assert.fail('nobody has noticed')
  })

let marks = 0

function startAt({ at: { seq }, where }: AgUiCursor) {
  return { thread: SESSION, seq, resumed: where, mark: () => `-${(marks += 1)}` }
}

function feedFrom(at: AgUiCursor): AgUiFeed {
  return new AgUiFeed(startAt(at))
}

/** A follower that comes after so many frames gets a live reply from its beginning, behind the messages that it answers. */
function joining({ told }: Played, from: number): Start & { readonly told: readonly Told[] } {
  const at = from === 0 ? { seq: 0, ended: 0, erased: 0 } : told[from - 1]!
  const begun = told.findLastIndex(({ frame }, index) => index < from && frame.type === 'turn')
  const last = told[begun]?.frame
  const live = last?.type === 'turn' && last.turn.endedAt === null ? last.turn : undefined
  if (!live) return { at, where: 'run', told: told.slice(from) }
  const seq = Math.min(at.seq, live.answers.to!)
  const missed = told
    .slice(0, from)
    .filter(({ frame, seq: to }, index) => index > begun || (frame.type === 'messages' && to > seq))
  const start = { seq, ended: live.epoch - 1, erased: told[begun]!.erased }
  return { at: start, where: 'run', live, told: [...missed, ...told.slice(from)] }
}

/** A client that has a message does not move it to another place. */
function sorted(messages: readonly AgUiMessage[]): AgUiMessage[] {
  return messages.toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

/** The client keeps reasonings and activities that a snapshot leaves out, unless the snapshot has others. */
function withoutLeftovers(has: readonly AgUiMessage[], wanted: readonly AgUiMessage[]): AgUiMessage[] {
  return has.filter(
    ({ id, role }) => (role !== 'reasoning' && role !== 'activity') || wanted.some((one) => one.id === id),
  )
}
