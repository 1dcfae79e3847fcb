// A device over random histories of a session. Its frames are split, repeated, lost on the way, and sent again after a cut, a
// hole, or a restored backup. The device ends with what is stored, and never shows a message twice. The mutants below are
// mistakes that the test finds: a repeat is taken as new; a hole goes unnoticed; an older state of a turn, or older words,
// replace newer ones; an echo leaves its row; an ack outlives a restored backup; what came before a tail is kept; a page of older
// messages lands elsewhere, or is from before an erasure.
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { test } from 'node:test'
import {
  createAssembler,
  isWithin,
  mergeDeltas,
  type Ack,
  type Chunk,
  type Frame,
  type Id,
  type Item,
  type Turn,
} from '@fleetline/protocol'
import * as fc from 'fast-check'
import {
  beginningOf,
  EMPTY,
  liveTurn,
  messagesOf,
  statusOf,
  step,
  type Message,
  type Step,
  type View,
} from '../../src/view.ts'

type Stepped = (view: View, event: Parameters<typeof step>[1]) => Step
/** The position of a connection. */
type Cursor = {
  seq: number
  ended: number
  shown: string
  open: { attempt: number; next: number }
  erased: number
}
type Happening =
  | (typeof HAPPENINGS)[number]
  | { readonly tell: number; readonly lost: boolean }
  | { readonly repeat: number }

const HAPPENINGS = [
  'other', // somebody else's message
  'send', // a message of this device
  'store', // the oldest of these messages that is not stored yet
  'ack',
  'claim',
  'say',
  'lose', // the pod that runs the turn
  'done',
  'fail',
  'stop',
  'halt',
  'anew', // the last reply is written anew
  'edit', // the last message of a user is edited
  'erase', // the first message that is not erased yet
  'restore', // a backup from before the session began
  'cut', // the connection
  'jump', // the device was away for long: it begins with the last messages
  'older', // the device asks for a page of older messages
  'page', // the oldest of these pages comes
] as const
const happenings = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.constantFrom<Happening>('send', 'store', 'ack', 'claim', 'say', 'say', 'say', 'say'),
    },
    { weight: 4, arbitrary: fc.constantFrom<Happening>(...HAPPENINGS) },
    { weight: 4, arbitrary: fc.constantFrom<Happening>('other', 'other', 'jump', 'older', 'page', 'erase') },
    { weight: 1, arbitrary: fc.constantFrom<Happening>('anew', 'edit') },
    {
      weight: 8,
      arbitrary: fc.record({ tell: fc.integer({ min: 1, max: 4 }), lost: fc.nat(9).map((n) => n === 0) }),
    },
    { weight: 2, arbitrary: fc.record({ repeat: fc.nat(20) }) },
  ),
  { maxLength: 120, size: 'max' },
)

const SESSION = 'ses_1' as Id<'session'>
const TAIL = 2
/** A page that was asked for when the view had this version. */
type OlderPage = { readonly items: readonly Item[]; readonly version: number }
const wordsOf = ({ parts }: Message) =>
  parts
    .map(
      (part) => part.type + ((part['text'] ?? `${(part['toolName'] ?? part['url']) as string}\n`) as string),
    )
    .join()
const textOf = (id: string) => ({ id, parts: [{ type: 'text', text: id }] })

const NEW_TURN: Omit<Turn, 'id' | 'epoch' | 'message'> = {
  session: SESSION,
  state: 'queued',
  attempt: 0,
  agent: 'a',
  answers: { from: 1, to: null },
  pod: null,
  waitsFor: null,
  startedAt: 'now',
  retryAt: null,
  endedAt: null,
  error: null,
}

/** The stored session, and the frames that a connection gets. */
function createServer() {
  let [log, ended, turn, chunks]: [Item[], Turn[], Turn | undefined, Chunk[]] = [[], [], undefined, []]
  let [epoch, count, restores]: [number, number, number] = [0, 0, 0]
  let [erased, before]: [number[], Map<number, Item>] = [[], new Map()]

  const add = (item: Omit<Item, 'seq' | 'author' | 'at'>) => {
    log = [...log, { ...item, seq: log.length + 1, author: { kind: 'user' }, at: `${(count += 1)}` }]
  }
  const change = (more: Partial<Turn>) => void (turn = turn && { ...turn, ...more })
  const end = (state: 'done' | 'failed' | 'stopped', hasReply: boolean) => {
    if (!turn) return
    const { parts } = assembled(chunks)
    const { id, message, replaces } = turn
    if (hasReply) add({ id: message, role: 'assistant', parts, turn: id, ...(replaces && { replaces }) })
    ended = [...ended, { ...turn, state, endedAt: 'now', ...(state === 'stopped' && { halted: false }) }]
    turn = undefined
  }
  const begin = (more: Pick<Turn, 'replaces'> = {}) => {
    epoch += 1
    const name = `${restores}.${epoch}`
    chunks = []
    const [id, message] = [`turn_${name}` as Id<'turn'>, `msg_${name}` as Id<'message'>]
    turn = { ...NEW_TURN, ...more, epoch, id, message }
  }
  /** The messages that belong to the conversation. */
  const effective = () => {
    const gone = log.flatMap(({ replaces = [] }) => replaces)
    return log.filter(({ seq }) => !isWithin(seq, gone))
  }
  const store = (id: string): Ack => {
    const there = log.find((item) => item.id === id)
    if (!there) add({ ...textOf(id), role: 'user' })
    if (!there && !turn) begin()
    const seq = there?.seq ?? log.length
    return { id, seq, deduped: there !== undefined, ...(turn && { turn: turn.id, epoch: turn.epoch }) }
  }
  const isRunning = () => turn?.state === 'running'
  return {
    log: () => log,
    turn: () => turn,
    epoch: () => epoch,
    chunks: () => chunks,
    add: () => add({ ...textOf(`o${restores}.${count}`), role: 'user' }),
    store,
    claim: () => {
      if (turn?.state !== 'queued') return
      change({ state: 'running', attempt: turn.attempt + 1 })
      chunks = []
    },
    say: () => {
      if (!isRunning()) return
      chunks.push(
        chunks.length === 0
          ? { type: 'text-start', id: '1' }
          : { type: 'text-delta', id: '1', delta: `${chunks.length} ` },
      )
    },
    lose: () => isRunning() && change({ state: 'queued' }),
    done: () => isRunning() && end('done', chunks.length > 1),
    fail: () => isRunning() && end('failed', false),
    stop: () => end('stopped', isRunning() && chunks.length > 1),
    halt: () => {
      const last = ended.at(-1)
      if (last?.halted === false && !turn) ended = [...ended.slice(0, -1), { ...last, halted: true }]
    },
    anew: () => {
      const reply = effective().findLast((item) => item.turn)
      if (!reply) return
      end('stopped', false)
      begin({ replaces: [[reply.seq, log.length]] })
    },
    edit: () => {
      const asked = effective().findLast(({ role }) => role === 'user')
      if (!asked) return
      end('stopped', false)
      add({ ...textOf(`e${restores}.${count}`), role: 'user', replaces: [[asked.seq, log.length]] })
      begin()
    },
    effective,
    /** A message as it was before it was erased. */
    before: (seq: number) => before.get(seq),
    erasures: () => erased.length,
    erase: () => {
      const item = log.find((one) => !one.erased)
      if (!item) return
      before.set(item.seq, item)
      erased = [...erased, item.seq]
      log = log.map((one) => (one === item ? { ...one, parts: [], erased: true } : one))
    },
    restore: () => {
      ;[log, ended, turn, chunks, epoch, erased] = [[], [], undefined, [], 0, []]
      before = new Map()
      restores += 1
    },
    /** The next frame for a connection at this position, and its position afterwards. */
    next: (at: Cursor, most: number): readonly [Frame, Cursor] | undefined => {
      const items = log.slice(at.seq, at.seq + most)
      if (items.length > 0)
        return [
          { type: 'messages', session: SESSION, items, head: log.length },
          { ...at, seq: at.seq + items.length },
        ]
      const seqs = erased.slice(at.erased)
      if (seqs.length > 0)
        return [
          { type: 'erased', session: SESSION, seqs },
          { ...at, erased: erased.length },
        ]
      const over = ended.find(
        (one) => one.epoch > at.ended || (one === ended.at(-1) && one.epoch === at.ended && !turn),
      )
      const told = over && JSON.stringify(over) !== at.shown ? over : turn
      if (!told) return undefined
      const shown = JSON.stringify(told)
      if (shown !== at.shown)
        return [
          { type: 'turn', session: SESSION, turn: told },
          {
            ...at,
            shown,
            ended: told.endedAt === null ? at.ended : told.epoch,
            open: { attempt: 0, next: 0 },
          },
        ]
      if (!isRunning()) return undefined
      const { attempt } = told
      const index = at.open.attempt === attempt ? at.open.next : 0
      const piece = chunks.slice(index, index + most)
      if (piece.length === 0) return undefined
      const next = index + piece.length
      return [
        {
          type: 'chunks',
          session: SESSION,
          turn: told.id,
          attempt,
          index,
          count: piece.length,
          chunks: mergeDeltas(piece),
        },
        { ...at, open: { attempt, next } },
      ]
    },
  }
}

function assembled(chunks: readonly Chunk[]) {
  const assembler = createAssembler('')
  chunks.forEach(assembler.push)
  return assembler.message()
}

/** Runs the happenings and returns every broken rule. */
function broken(happened: readonly Happening[], stepped: Stepped): string[] {
  const server = createServer()
  const [faults, acks, pages]: [string[], Ack[], OlderPage[]] = [[], [], []]
  let [view, cursor, told, mine, isCut]: [View, Cursor, Frame[], number, boolean] = [
    EMPTY,
    fresh(EMPTY),
    [],
    0,
    false,
  ]

  function fresh(from: View): Cursor {
    const { after, epoch } = beginningOf(from)
    const erased = after > 0 ? 0 : server.erasures()
    return { seq: after, ended: epoch - 1, shown: '', open: { attempt: 0, next: 0 }, erased }
  }
  const erased = new Set<number>()
  const take = (event: Parameters<typeof step>[1]) => {
    if (event.type === 'gap') erased.clear()
    if (event.type === 'erased') event.seqs.forEach((seq) => erased.add(seq))
    const [next, before] = [stepped(view, event), view]
    view = next.view
    const asks = next.effects.some(({ type }) => type === 'ask')
    if (asks) cursor = fresh(view)
    faults.push(...standing())
    if (event.type !== 'gap' && event.type !== 'begun' && !asks && isBack(before, view))
      faults.push('it went back')
  }
  /** What must hold at any time. */
  const standing = (): string[] => {
    const ids = messagesOf(view).map(({ id }) => id)
    const { base, head, log } = view
    const isStored = (shown: View['log'][number], index: number) =>
      [server.log()[base + index], server.before(base + index + 1)].some((item) =>
        isDeepStrictEqual(
          { ...shown, isReplaced: undefined },
          item && { ...item, delivery: 'sent', isReplaced: undefined },
        ),
      )
    return [
      ...(new Set(ids).size === ids.length ? [] : ['shown twice']),
      ...(log.some((shown) => erased.has(shown.seq!) && !shown.erased) ? ['erased, and shown again'] : []),
      ...(isCut || (log.length === head - base && log.every(isStored)) ? [] : ['not what is stored']),
    ]
  }
  const tell = (most: number, lost: boolean): boolean => {
    if (isCut) {
      isCut = false
      told = []
      cursor = fresh(EMPTY)
      take({ type: 'gap', session: SESSION, reason: 'diverged', from: 1, to: 0 })
      return true
    }
    const next = server.next(cursor, most)
    if (!next) return false
    cursor = next[1]
    told.push(next[0])
    if (!lost) take(next[0])
    return true
  }
  const jump = () => {
    const [from, { ended }] = [Math.max(0, server.log().length - TAIL), fresh(view)]
    take({ type: 'begun', from })
    told = [] // frames of the feed before are not taken any more
    cursor = {
      ...fresh(view),
      seq: from,
      ended: Math.min(ended, Math.max(0, server.epoch() - 1)),
      erased: server.erasures(),
    }
  }
  const ask = () => {
    const { base, version } = view
    pages.push({ items: server.log().slice(Math.max(0, base - TAIL), base), version })
  }
  /** As a session does it. */
  const takePage = () => {
    const page = pages.shift()
    if (page?.version === view.version) take({ type: 'older', items: page.items })
  }
  const pending = () => view.rows.find(({ delivery }) => delivery === 'pending')
  const happen = (what: Happening) => {
    if (typeof what === 'object') {
      if ('tell' in what) return void tell(what.tell, what.lost)
      const frame = told[told.length - 1 - what.repeat]
      return frame && !isCut && take(frame)
    }
    switch (what) {
      case 'other':
        return isCut || server.add()
      case 'send':
        return take({ type: 'send', message: { ...textOf(`m${(mine += 1)}`), role: 'user' } })
      case 'store':
        return isCut || (pending() && acks.push(server.store(pending()!.id)))
      case 'ack': {
        const ack = acks.shift()
        return ack && take({ type: 'acked', ack })
      }
      case 'restore':
        acks.length = 0 // an earlier answer does not arrive after the gap
        isCut = true
        return server.restore()
      case 'jump':
        return isCut || jump()
      case 'older':
        return isCut || ask()
      case 'page':
        return takePage()
      case 'cut':
        return (cursor = { ...cursor, shown: '' })
      case 'claim':
      case 'say':
      case 'lose':
      case 'done':
      case 'fail':
      case 'stop':
      case 'halt':
      case 'anew':
      case 'edit':
      case 'erase':
        return isCut || server[what]()
    }
  }
  const tellAll = () => {
    for (let left = 1000; left > 0 && tell(3, false); left -= 1);
  }
  const settle = () => {
    tellAll()
    const rows = view.rows.filter(({ delivery }) => delivery === 'pending')
    for (const { id } of rows) take({ type: 'acked', ack: server.store(id) })
    server.add()
    tell(1, true)
    server.add()
    tellAll() // there is a hole now, so the device asks again and gets everything that was lost before
    if (view.rows.length > 0) faults.push('a stored message is sent for ever')
    for (pages.length = 0; view.base > 0 && faults.length === 0; takePage()) ask()
  }
  happened.forEach(happen)
  settle()
  return [...faults, ...atTheEnd(view, server)]
}

function isBack({ turn: a, open: x }: View, { turn: b, open: y }: View): boolean {
  const placeOf = ({ epoch, endedAt, attempt }: Turn) => [epoch, Number(endedAt !== null), attempt]
  const isLower = (before: readonly number[], after: readonly number[]) => {
    const at = before.findIndex((value, index) => value !== after[index])
    return at >= 0 && after[at]! < before[at]!
  }
  return Boolean(
    (a && (!b || isLower(placeOf(a), placeOf(b)))) ||
    (x && y && x.message.turn === y.message.turn && isLower([x.attempt, x.next], [y.attempt, y.next])),
  )
}

function atTheEnd(view: View, server: ReturnType<typeof createServer>): string[] {
  const [turn, chunks] = [server.turn(), server.chunks()]
  const isSaying = turn?.state === 'running' && chunks.length > 0
  const shown = messagesOf(view).flatMap(({ seq }) => seq ?? [])
  const wanted = server.effective().filter(({ seq }) => !isWithin(seq, turn?.replaces))
  return [
    ...(isDeepStrictEqual(
      shown,
      wanted.map(({ seq }) => seq),
    )
      ? []
      : ['not the conversation']),
    ...(view.head === server.log().length && view.base === 0 ? [] : ['messages are missing']),
    ...(view.log.some(({ seq, erased }) => !erased && server.before(seq!))
      ? ['an erased message is shown']
      : []),
    ...(view.rows.length === 0 ? [] : ['a stored message has a row of its own']),
    ...((turn ? isDeepStrictEqual(view.turn, turn) : view.turn?.endedAt !== null) ? [] : ['another turn']),
    ...(turn || view.open === null ? [] : ['an open reply without a turn']),
    ...(!isSaying || isDeepStrictEqual(view.open?.message.parts, assembled(chunks).parts)
      ? []
      : ['other words']),
    ...(!isSaying || statusOf(view) === 'streaming' ? [] : ['the status']),
    ...(!view.open || wordsOf(view.open.shown).startsWith(wordsOf(view.open.message))
      ? []
      : ['words on screen that the reply does not begin with']),
  ]
}

const RUNS = { seed: 7, numRuns: 1_000 }

test('a message that was acknowledged at the seq of another one is sent again, because its history is gone', () => {
  const message = { ...textOf('m'), role: 'user' as const }
  const item: Item = { ...textOf('o'), role: 'user', seq: 1, author: { kind: 'user' }, at: 'now' }
  const items: Frame = { type: 'messages', session: SESSION, items: [item], head: 1 }
  const ack: Ack = { id: 'm', seq: 1, deduped: false }
  for (const events of [
    [{ type: 'acked', ack }, items],
    [items, { type: 'acked', ack }],
  ] as const) {
    const sent = step(EMPTY, { type: 'send', message }).view
    const { rows } = events.reduce((view, event) => step(view, event).view, sent)
    assert.deepEqual(
      rows.map(({ id, seq, delivery }) => ({ id, seq, delivery })),
      [{ id: 'm', seq: null, delivery: 'pending' }],
    )
  }
})

test('D1 D3 D4 S35: whatever is repeated, lost, cut, erased or restored, a device ends with what is stored, and shows nothing twice', () => {
  fc.assert(
    fc.property(happenings, (happened) => assert.deepEqual(broken(happened, step), [])),
    RUNS,
  )
})

test('the words of a reply stay on screen while it begins again, until it says more, or something else', () => {
  const turn = {
    id: 'turn_1',
    epoch: 1,
    attempt: 1,
    state: 'running',
    message: 'r',
    agent: 'bot',
    endedAt: null,
  }
  const say = (view: View, attempt: number, index: number, ...chunks: object[]) =>
    step(view, {
      type: 'chunks',
      turn: 'turn_1',
      attempt,
      index,
      count: chunks.length,
      chunks,
    } as unknown as Frame).view
  const begun = (id: string) => ({ type: 'text-start', id })
  const delta = (text: string, id = '1') => ({ type: 'text-delta', id, delta: text })
  const shown = (view: View) => messagesOf(view).flatMap(({ parts }) => parts.map(({ text }) => text))
  const running = step(EMPTY, { type: 'turn', turn } as unknown as Frame).view
  const first = say(running, 1, 0, begun('0'), delta('hm', '0'), begun('1'), delta('one two three'))
  assert.deepEqual(shown(first), ['hm', 'one two three'])
  const again = say(first, 2, 0, begun('0'))
  const known = say(say(again, 2, 1, delta('hm', '0'), begun('1')), 2, 3, delta('one tw'))
  for (const view of [again, known])
    assert.equal(messagesOf(view)[0], messagesOf(first)[0], 'the same object: nothing is rendered')
  assert.deepEqual(shown(say(known, 2, 4, delta('o three four'))), ['hm', 'one two three four'])
  assert.deepEqual(shown(say(known, 2, 4, delta('elve'))), ['hm', 'one twelve'])
  assert.deepEqual(shown(say(first, 2, 0, begun('0'), delta('other', '0'))), ['other'])
  const whole = say(known, 2, 4, delta('o three'))
  assert.equal(whole.open!.shown, whole.open!.message, 'it says as much: the new attempt is on screen')

  const input = { type: 'tool-input-available', toolCallId: 'c', toolName: 'look', input: {} }
  const output = { type: 'tool-output-available', toolCallId: 'c', output: 'seen' }
  const data = (number: number) => ({ type: 'data-map', id: 'm', data: number })
  const looked = say(running, 1, 0, data(1), input, output, data(2), begun('1'), delta('found it'))
  const looks = say(looked, 2, 0, data(1), { ...input, toolCallId: 'd' })
  assert.equal(looks.open!.shown, looked.open!.shown, 'its tool runs again')
  const other = { ...input, toolName: 'search' }
  assert.deepEqual(
    messagesOf(say(looked, 2, 0, data(1), other)).map(({ parts }) => parts.map(({ type }) => type)),
    [['data-map', 'tool-search']],
  )
  const prefix = say(looked, 2, 0, data(1), { ...input, toolName: 'loo' })
  assert.equal(prefix.open!.shown, prefix.open!.message, 'another tool, whose name the first one begins with')
  const file = (url: string) => ({ type: 'file', url, mediaType: 'text/plain' })
  const drawn = say(running, 1, 0, file('/a'), begun('1'))
  const redrawn = say(drawn, 2, 0, file('/b'))
  assert.equal(redrawn.open!.shown, redrawn.open!.message, 'another file')
})

test('while a conversation is summarised, a message waits; its turn can be stopped as soon as an ack names it', () => {
  const acked = (view: View, seq: number, turn?: string) =>
    step(view, {
      type: 'acked',
      ack: { id: `m${seq}`, seq, deduped: false, epoch: 3, ...(turn && { turn }) } as Ack,
    }).view
  const before: View = { ...EMPTY, head: 4 }
  assert.equal(statusOf(before), 'idle')
  const waiting = acked(before, 5)
  assert.deepEqual([statusOf(waiting), liveTurn(waiting)], ['waiting', undefined])
  const started = acked(waiting, 6, 'turn_3')
  assert.deepEqual([statusOf(started), liveTurn(started)], ['waiting', { turn: 'turn_3', epoch: 3 }])
  assert.deepEqual(
    liveTurn(acked(started, 7)),
    { turn: 'turn_3', epoch: 3 },
    'an ack without a turn came late',
  )
})

const mutants: Readonly<Record<string, Stepped>> = {
  'a repeat is taken as new': (view, event) =>
    event.type === 'messages' ? step({ ...view, head: event.items[0]!.seq - 1 }, event) : step(view, event),
  'a hole in the log goes unnoticed': (view, event) => {
    const next = step(view, event)
    const asks = event.type === 'messages' && next.effects.some(({ type }) => type === 'ask')
    return asks ? { view: step({ ...view, head: event.items[0]!.seq - 1 }, event).view, effects: [] } : next
  },
  'nothing is asked again': (view, event) => ({ ...step(view, event), effects: [] }),
  'an older state of a turn replaces a newer one': (view, event) =>
    step(event.type === 'turn' ? { ...view, turn: null } : view, event),
  'older words replace newer ones': (view, event) =>
    step(event.type === 'chunks' && event.index === 0 ? { ...view, open: null } : view, event),
  'a hole in the words goes unnoticed': (view, event) => {
    const isOfOpen = event.type === 'chunks' && event.attempt === view.open?.attempt
    return step(isOfOpen ? { ...view, open: { ...view.open, next: event.index } } : view, event)
  },
  'an item leaves the open reply': (view, event) => {
    const next = step(view, event)
    return event.type === 'messages' ? { ...next, view: { ...next.view, open: view.open } } : next
  },
  'the end of a turn leaves its open reply': (view, event) => {
    const next = step(view, event)
    return event.type === 'turn' ? { ...next, view: { ...next.view, open: view.open } } : next
  },
  'an echo leaves its row': (view, event) => {
    const next = step(view, event)
    return event.type === 'messages' ? { ...next, view: { ...next.view, rows: view.rows } } : next
  },
  'an ack outlives a restored backup': (view, event) => {
    const next = step(view, event)
    return event.type === 'gap' ? { ...next, view: { ...next.view, rows: view.rows } } : next
  },
  'an erasure goes unnoticed': (view, event) =>
    event.type === 'erased' ? { view, effects: [] } : step(view, event),
  'a tail is put behind the log': (view, event) =>
    event.type === 'begun' ? { view: { ...view, head: event.from }, effects: [] } : step(view, event),
  'older messages land elsewhere': (view, event) =>
    step(event.type === 'older' ? { ...view, base: event.items.at(-1)?.seq ?? view.base } : view, event),
  'a page from before an erasure, or a jump, is taken': (view, event) => {
    const next = step(view, event)
    return { ...next, view: { ...next.view, version: 0 } }
  },
  'an ack of a message before the tail leaves its row': (view, event) => {
    const next = step(view, event)
    const isOlder = event.type === 'acked' && event.ack.seq <= view.base
    return isOlder ? { ...next, view: { ...next.view, rows: view.rows } } : next
  },
  'a new message replaces nothing': (view, event) => {
    const items = event.type === 'messages' ? event.items : []
    const next = step(view, event)
    if (items.every(({ replaces }) => !replaces)) return next
    const log = next.view.log.map(({ isReplaced: _isReplaced, ...message }) => message)
    return { ...next, view: { ...next.view, log } }
  },
  'an older message is shown although a later one replaces it': (view, event) => {
    const next = step(view, event)
    if (event.type !== 'older') return next
    const log = next.view.log.map((message, place) =>
      place < event.items.length ? { ...message, isReplaced: false } : message,
    )
    return { ...next, view: { ...next.view, log } }
  },
  'a gap leaves the log': (view, event) => (event.type === 'gap' ? { view, effects: [] } : step(view, event)),
}

for (const [name, mutant] of Object.entries(mutants))
  test(`mutant, ${name}: turns red`, () => {
    const rules = fc.property(happenings, (happened) => broken(happened, mutant).length === 0)
    const { failed } = fc.check(rules, RUNS) // the same orders each time; one of them breaks a rule
    assert.ok(failed, 'no history broke a rule')
  })
