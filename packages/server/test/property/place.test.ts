// These mistakes make the tests fail (all six were tried): a repeat inside the batch takes a seq of its own; ifHead is compared
// with the head before the batch; a refused item moves the head; an end or a stop is compared with the conversation before the
// batch; a stop that is repeated inside a batch counts as another one. So do these two (tried): a cursor goes back; a cursor passes
// the head. And these three (tried): a summary may be stored without the claim; a compaction that failed counts as one that summarised;
// the end of a compaction leaves the version as it was.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { isWithin, type Role, type SeqRange } from '@fleetline/protocol'
import { HELD } from '../../src/lib/batcher.ts'
import {
  nameOf,
  type Appended,
  type BatchFindings,
  type Item,
  type Placed,
  type ReadCursor,
  type RewriteFindings,
  type SessionState,
  type StartedCompaction,
  type StoredMessage,
} from '../../src/session/items.ts'
import { place } from '../../src/session/place.ts'
import { textDraft } from '../support/history.ts'

const sends = fc.record({
  session: fc.constantFrom('s1', 's2', 'nowhere'),
  id: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
  text: fc.constantFrom('one', 'two'),
  ifHead: fc.option(fc.nat(6), { nil: undefined }),
  by: fc.constantFrom('ann', 'bob', undefined),
})
type Send = { session: string; id: string; text: string; ifHead: number | undefined; by?: string | undefined }
const batches = fc.array(fc.array(sends, { minLength: 1, maxLength: 8 }), { maxLength: 8 })

function messageOf({ session, id, text, ifHead, by }: Send): Item {
  const item = { type: 'message' as const, tenant: 1, session, asks: true, draft: textDraft(id, text, by) }
  return ifHead === undefined ? item : { ...item, ifHead }
}

const SIZE = { tokens: 1, budget: { tokenBudget: 1, triggerRatio: 1 }, isCut: false } // every conversation is long

type LogEntry = {
  readonly seq: number
  readonly role: Role
  readonly key: string
  readonly author: string | null
  readonly answers: number | undefined
}
type Turn = {
  readonly id: string
  readonly session: string
  readonly epoch: number
  readonly agent: string
  readonly readFrom: number
  readonly askedFrom: number
  readonly replaces: readonly SeqRange[] | null
  readonly cause: string | undefined
  /** Of the message that the command of `cause` has stored. */
  readonly seq: number | null
  readTo: number | null
  endedBy: number | null
  outcome: Placed['closed'][number]['outcome'] | null
}

/** Every other turn has said something by the time it is stopped. */
function saidBy(turn: string) {
  return Number(turn.slice(1)) % 2 === 0 ? textDraft(`said-${turn}`) : undefined
}

/** Stands in for append.ts: for each batch it finds what `place` needs, and stores what `place` returns. */
function createLogs(agent: string | null) {
  const sessions = new Map<string, SessionState>()
  const stored = new Map<string, StoredMessage>()
  const turns = new Map<string, Turn>()
  const cursors = new Map<string, ReadCursor>() // bob is a member of no session
  const compactions: StartedCompaction[] = []
  const logs = new Map<string, LogEntry[]>()
  const replaced = new Map<string, SeqRange[]>()
  let started = 0
  for (const session of ['s1', 's2']) {
    const idle = {
      turn: null,
      compacting: null,
      epoch: 0,
      asked: 0,
      answered: 0,
      replied: 0,
      failedEpoch: null,
    }
    const whole = {
      summarised: 0,
      nextTrySeq: 0,
      version: 0,
      isArchived: false,
      isErased: false,
      eraseCount: 0,
    }
    sessions.set(nameOf({ tenant: 1, session }), { tenant: 1, session, head: 0, agent, ...idle, ...whole })
    cursors.set(`${session}/ann`, { read: 0, seenEpoch: 0 })
  }
  const findIn = <Value>(items: readonly Item[], find: (item: Item) => Value | undefined) =>
    new Map(
      items.flatMap((item, index) => {
        const value = find(item)
        return value === undefined ? [] : [[index, value] as const]
      }),
    )
  const liveOf = (item: Item) => (item.type === 'rewrite' && sessions.get(nameOf(item))?.turn) || ''
  /** What find-rewrites.ts reads. */
  const rewriteFor = (item: Extract<Item, { type: 'rewrite' }>): RewriteFindings => {
    const [log, gone] = [logs.get(nameOf(item)) ?? [], replaced.get(nameOf(item)) ?? []]
    const target =
      item.target === null
        ? log.findLast(
            ({ seq, role }) =>
              (role === 'assistant' || seq === sessions.get(nameOf(item))?.asked) && !isWithin(seq, gone),
          )
        : log.find(({ key }) => key === item.target)
    const { seq = 0, role = 'user' } = target ?? {}
    const before = [...turns.values()].find(
      (turn) =>
        turn.session === item.session &&
        turn.cause === item.cause &&
        turn.epoch > item.epoch &&
        turn.epoch <= item.epoch + 2,
    )
    return {
      repeat: before && { turn: { turn: before.id, epoch: before.epoch }, seq: before.seq },
      isOpen: item.target === null && !item.draft && liveOf(item) !== '',
      ranges: gone.length,
      target: target && {
        seq,
        role,
        author: target.author,
        isErased: false,
        isReplaced: isWithin(seq, gone),
        kept: log.flatMap((one) =>
          one.seq > seq && one.answers !== undefined && one.answers < seq ? [one.seq] : [],
        ),
        askedFrom:
          log.findLast((one) => one.role === 'user' && one.seq <= seq && !isWithin(one.seq, gone))?.seq ??
          null,
      },
    }
  }
  const foundFor = (items: readonly Item[]): BatchFindings => ({
    sessions,
    stored: findIn(items, (item) =>
      item.type === 'stop'
        ? stored.get(`${item.session}/said-${item.turn}`)
        : stored.get(`${item.session}/${'draft' in item && item.type !== 'end' ? item.draft?.id : ''}`),
    ),
    turns: findIn(items, (item) => turns.get('turn' in item ? item.turn : liveOf(item))),
    open: findIn(items, (item) => {
      if (item.type !== 'stop' && item.type !== 'expire' && item.type !== 'rewrite') return undefined
      const turn = item.type === 'rewrite' ? liveOf(item) : item.turn
      const isLive = turn !== '' && sessions.get(nameOf(item))?.turn === turn
      const pod = item.type !== 'expire' || Number(turn.slice(1)) % 3 > 0 ? 1 : null
      return isLive ? { attempt: 1, pod, said: saidBy(turn), used: [] } : undefined
    }),
    held: new Set(findIn(items, (item) => ('pod' in item && item.pod === 1 ? true : undefined)).keys()),
    rewrites: findIn(items, (item) => (item.type === 'rewrite' ? rewriteFor(item) : undefined)),
    cursors: findIn(items, (item) =>
      item.type === 'read' ? cursors.get(`${item.session}/${item.user}`) : undefined,
    ),
  })
  return {
    sessions,
    cursors,
    /** A reply that is written anew, or an edit, at the session's epoch or an earlier one. */
    rewriteOf: ({ session, nth, isLate, isEdit, text }: RewriteWish): Item => {
      const log = logs.get(nameOf({ tenant: 1, session })) ?? []
      const epoch = (sessions.get(nameOf({ tenant: 1, session }))?.epoch ?? 0) - Number(isLate)
      const target = nth === 0 && !isEdit ? null : (log.at(-nth)?.key ?? 'none')
      const draft = isEdit ? { draft: textDraft(`edit-${epoch}-${target}`, text, 'ann') } : {}
      const cause = JSON.stringify([epoch, target, isEdit])
      return { type: 'rewrite', tenant: 1, session, epoch, cause, target, ...draft }
    },
    /** The end of a compaction that started in an earlier batch. */
    compactedBy: ({ nth, misses, pod, hasFailed, attempt }: EndWish): Item[] => {
      const compaction = compactions.at(-1 - nth)
      if (!compaction) return []
      const { session, through: upto } = compaction
      const isPartial = attempt === 2
      const name = misses === 'epoch' ? 'another' : compaction.compaction
      const item = { type: 'compacted' as const, tenant: 1, session, compaction: name, attempt: 1, pod }
      return [
        hasFailed
          ? { ...item, outcome: 'failed', code: 'x' }
          : {
              ...item,
              outcome: 'done',
              upto,
              text: `up to ${upto}`,
              more: isPartial ? SIZE : undefined,
              eraseCount: 0,
            },
      ]
    },
    /** The end of a turn that started in an earlier batch, or an end with a wrong epoch or session. */
    endOf: ({ nth, misses, ...wish }: EndWish): Item[] => {
      const turn = [...turns.values()].toReversed()[nth] // the turns that started last are most likely live
      if (!turn) return []
      const { id, session, epoch } = turn
      const end = { type: 'end' as const, tenant: 1, turn: id, attempt: wish.attempt, pod: wish.pod }
      const missed = {
        session: misses === 'session' ? 's2' : session,
        epoch: misses === 'epoch' ? epoch - 1 : epoch,
      }
      const error = { code: 'x', message: '' }
      if (wish.from === 'user') return [{ type: 'stop', tenant: 1, turn: id, ...missed }]
      if (wish.from === 'leader') return [{ type: 'expire', tenant: 1, turn: id, ...missed, error }]
      const draft = textDraft(`reply-${id}-${wish.attempt}`)
      return [
        wish.hasFailed
          ? { ...end, ...missed, outcome: 'failed', error, draft: wish.attempt > 1 ? draft : undefined }
          : { ...end, ...missed, outcome: 'done', draft, size: SIZE },
      ]
    },
    /** Turns that have not read yet read the whole log; every fourth never reads. */
    gather: () => {
      for (const turn of turns.values())
        if (turn.epoch % 4 > 0) turn.readTo ??= sessions.get(nameOf({ tenant: 1, ...turn }))!.head
    },
    take: (items: readonly Item[]): Placed => {
      const placed = place(items, foundFor(items), () => `t${(started += 1)}`)
      for (const { session, draft, seq, answers, replaces = [] } of placed.written) {
        const name = nameOf({ tenant: 1, session })
        const { role, key, author } = draft
        stored.set(`${session}/${draft.id}`, { seq, digest: draft.digest, isErased: false })
        logs.set(name, [...(logs.get(name) ?? []), { seq, role, key, author: author.id ?? null, answers }])
        replaced.set(name, [...(replaced.get(name) ?? []), ...replaces])
      }
      for (const { replaced: _replaced, ...state } of placed.changed) sessions.set(nameOf(state), state)
      for (const {
        turn: id,
        session,
        epoch,
        readFrom,
        askedFrom,
        readTo = null,
        replaces = null,
        cause,
      } of placed.started) {
        const seq =
          placed.written.find((one) => one.session === session && (one.replaces ?? []).length > 0)?.seq ??
          null
        const row = { id, session, epoch, readFrom, askedFrom, readTo, replaces, cause, seq }
        turns.set(id, { ...row, agent: 'demo', endedBy: null, outcome: null })
      }
      for (const { turn, attempt, outcome } of placed.closed)
        Object.assign(turns.get(turn)!, { endedBy: attempt, outcome })
      compactions.push(...placed.startedCompactions)
      for (const { session, user, read, seenEpoch } of placed.cursors)
        if (cursors.has(`${session}/${user}`)) cursors.set(`${session}/${user}`, { read, seenEpoch })
      return placed
    },
  }
}

type Said = Pick<Send, 'id' | 'text' | 'by'>

/** The same rules, one message at a time, over whole logs. */
function model(logs: Map<string, Said[]>, send: Send): Appended {
  const log = logs.get(send.session)
  if (!log) return { type: 'not-found' }
  const at = log.findIndex(({ id }) => id === send.id)
  if (at >= 0)
    return log[at]!.text === send.text && log[at]!.by === send.by
      ? { type: 'stored', seq: at + 1, deduped: true }
      : { type: 'conflict', seq: at + 1 }
  if (send.ifHead !== undefined && send.ifHead !== log.length) return { type: 'stale', head: log.length }
  return { type: 'stored', seq: log.push(send), deduped: false }
}

test('L2 L4 L11: a batch places its messages as if each had come alone', () => {
  fc.assert(
    fc.property(batches, (plan) => {
      const logs = new Map<string, Said[]>([
        ['s1', []],
        ['s2', []],
      ])
      const { take, sessions } = createLogs(null)
      for (const batch of plan)
        assert.deepEqual(
          take(batch.map(messageOf)).results,
          batch.map((send) => model(logs, send)),
        )
      assert.deepEqual(
        Array.from(sessions.values(), ({ head, turn, epoch }) => ({ head, turn, epoch })),
        Array.from(logs.values(), ({ length }) => ({ head: length, turn: null, epoch: 0 })),
      )
    }),
  )
})

const ends = fc.record({
  nth: fc.constantFrom(0, 0, 0, 1, 2),
  misses: fc.constantFrom(...Array.from({ length: 8 }, () => 'nothing'), 'epoch', 'session'),
  attempt: fc.constantFrom(1, 2),
  pod: fc.constantFrom(1, 1, 1, 1, 1, 1, 1, 2), // pod 1 holds every claim
  hasFailed: fc.constantFrom(false, false, true),
  from: fc.constantFrom('attempt', 'attempt', 'user', 'leader', 'compaction', 'compaction'),
})
const talks = fc.record({
  session: fc.constantFrom('s1', 's2'),
  id: fc.constantFrom(...'fghijklmnopq'),
  text: fc.constant('three'),
  ifHead: fc.constant(undefined),
}) // so that there are many turns and compactions
const rewrites = fc.record({
  session: fc.constantFrom('s1', 's2', 'nowhere'),
  nth: fc.nat(3),
  isLate: fc.constantFrom(false, false, false, true),
  isEdit: fc.boolean(),
  text: fc.constantFrom('one', 'two'),
})
type RewriteWish = typeof rewrites extends fc.Arbitrary<infer One> ? One : never
type EndWish = typeof ends extends fc.Arbitrary<infer One> ? One : never

const reads = fc.record({
  type: fc.constant('read' as const),
  tenant: fc.constant(1),
  session: fc.constantFrom('s1', 's2', 'nowhere'),
  user: fc.constantFrom('ann', 'ann', 'bob'),
  seq: fc.nat(9),
})

/** As if the batches were one. */
function joined(batches: readonly Placed[]): Placed {
  const changed = new Map(
    batches.flatMap((one) => one.changed.map((state) => [nameOf(state), state] as const)),
  )
  const lists = Object.fromEntries(
    LISTS.map((key) => [key, batches.flatMap((one): unknown[] => [...one[key]])]),
  )
  const results = batches.flatMap((one) => one.results.filter((result) => result !== HELD))
  return { ...batches[0]!, ...lists, results, changed: [...changed.values()] }
}

const LISTS = [
  'results',
  'written',
  'started',
  'closed',
  'startedCompactions',
  'endedCompactions',
  'unsummarised',
] as const

/** A session is summarised up to where its last summary of the batch reaches, and its version counts the compactions that ended. */
function assertWhole(
  before: SessionState,
  after: SessionState,
  { endedCompactions, unsummarised }: Placed,
): void {
  const isForgotten = unsummarised.some((key) => nameOf(key) === nameOf(after))
  const ended = endedCompactions.filter((end) => nameOf(end) === nameOf(after))
  const upto = ended.flatMap((end) => (end.outcome === 'done' && end.pod === 1 ? [end.upto] : []))
  assert.equal(after.summarised, isForgotten ? 0 : (upto.at(-1) ?? before.summarised))
  assert.equal(after.version, before.version + ended.length + Number(isForgotten))
  assert.ok(after.turn === null || after.compacting === null)
}

test('E1 E7 E8 E10 I2 L11: a batch places messages, ends of turns and compactions, stops, rewrites, expiries and reads as if each had come alone', () => {
  const wishes = fc.oneof(sends, talks, ends, ends, reads, rewrites)
  const byId = (one: Placed['changed']) =>
    one.map(({ replaced: _replaced, ...state }) => [nameOf(state), state] as const) // `replaced` is of one batch; what is written says it, too
  const ended = { done: 0, failed: 0, stopped: 0, expired: 0 }
  const compacted = { done: 0, failed: 0 }
  const rewritten = { rewritten: 0, repeated: 0, stale: 0, forgotten: 0 }
  fc.assert(
    fc.property(
      fc.array(fc.array(wishes, { minLength: 1, maxLength: 6 }), {
        minLength: 2,
        maxLength: 12,
        size: 'max',
      }),
      (plan) => {
        const [together, alone] = [createLogs('demo'), createLogs('demo')]
        for (const wished of plan) {
          const batch = wished.flatMap((wish): Item[] => {
            if ('type' in wish) return [wish]
            if ('isEdit' in wish) return [together.rewriteOf(wish)]
            if (!('nth' in wish)) return [messageOf(wish)]
            return wish.from === 'compaction' ? together.compactedBy(wish) : together.endOf(wish)
          })
          const before = { cursors: new Map(together.cursors), sessions: new Map(together.sessions) }
          const first = together.take(batch)
          const isHeld = (_: Item, index: number) => first.results[index] === HELD
          const later = batch.filter(isHeld).map((item) => together.take([item]))
          const placed = joined([first, ...later])
          const inOrder = [...batch.filter((item, index) => !isHeld(item, index)), ...batch.filter(isHeld)]
          const single = inOrder.map((item) => alone.take([item]))
          const all = <Key extends (typeof LISTS)[number]>(key: Key) =>
            single.flatMap((one) => [...one[key]] as Placed[Key][number][])
          for (const key of LISTS) assert.deepEqual(placed[key], all(key), key)
          const last = new Map(single.flatMap(({ changed }) => byId(changed)))
          assert.deepEqual(new Map(byId(placed.changed)), last)
          assert.deepEqual(together.cursors, alone.cursors)
          for (const [name, { read, seenEpoch }] of together.cursors) {
            const { head } = together.sessions.get(`1/${name.split('/')[0]!}`)!
            assert.ok(
              read <= head &&
                read >= before.cursors.get(name)!.read &&
                seenEpoch >= before.cursors.get(name)!.seenEpoch,
            )
          }
          for (const result of placed.results)
            if (result !== HELD && result.type === 'rewritten')
              rewritten[result.isRepeat ? 'repeated' : 'rewritten'] += 1
            else if (result !== HELD && result.type === 'stale' && 'epoch' in result) rewritten.stale += 1
          rewritten.forgotten += placed.unsummarised.length
          for (const end of placed.endedCompactions) compacted[end.outcome] += 1
          for (const state of placed.changed) assertWhole(before.sessions.get(nameOf(state))!, state, placed)
          for (const { outcome, attempt } of placed.closed) ended[attempt === 0 ? 'expired' : outcome] += 1
          together.gather()
          alone.gather()
        }
      },
    ),
    { numRuns: 600 },
  )
  assert.ok(
    [ended, compacted, rewritten].flatMap((counts) => Object.values(counts)).every((count) => count > 0),
    JSON.stringify({ ended, compacted, rewritten }),
  )
})
