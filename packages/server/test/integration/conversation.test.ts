// A conversation on PostgreSQL: E1, E3 and E4 in the transaction of the log, and the mutants that must turn them red.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatId } from '@fleetline/protocol'
import { SESSION_LOCK } from '../../src/session/append.ts'
import { openTurn, TURN_OPEN, TURN_START, TURN_TASKS } from '../../src/session/turns.ts'
import type { Database, Query } from '../../src/store/database.ts'
import type { HeldClaim } from '../../src/task/settle.ts'
import { join } from '../../src/fleet/pods.ts'
import { textDraft } from '../support/history.ts'
import { conversationOn, doneBy, driversOf } from '../support/turns.ts'

type Transactions = Pick<Database, 'transaction'>

function mutated(database: Transactions, change: (query: Query) => Query): Transactions {
  return { transaction: (work, options) => database.transaction((query) => work(change(query)), options) }
}

test('E4: a message that asks for a reply is committed with its turn and its task; other messages start no turn', async (t) => {
  const { append, ask, key, rows, run } = await conversationOn(t)
  await append({ ...key, draft: textDraft('note') })
  assert.deepEqual((await rows()).turns, [])
  const asked = await ask('a')
  assert.ok(asked.type === 'stored', asked.type)
  assert.ok(asked.live, 'the ack names a live turn')
  const { turn, epoch } = asked.live
  assert.deepEqual({ seq: asked.seq, epoch }, { seq: 2, epoch: 1 })
  assert.deepEqual(await rows(), {
    session: { head: 2, turn, epoch: 1 },
    turns: [{ id: turn, epoch: 1, from: 1, to: null, outcome: null }],
    tasks: [turn],
    messages: [
      { id: 'note', answers: null },
      { id: 'a', answers: null },
    ],
  })
  assert.deepEqual(await ask('a'), { ...asked, deduped: true }, 'a repeat starts nothing')
  await run((query) => query('update fleetline.sessions set agent = null, turn = null'))
  assert.deepEqual(await ask('plain'), { type: 'stored', seq: 3, deduped: false })
  assert.equal((await rows()).tasks.length, 1)
})

test('the next turn answers all three messages that were sent while a turn ran', async (t) => {
  const { append, ask, claimTurn, endTurn, gather, key, pod, rows } = await conversationOn(t)
  await ask('a')
  const first = await claimTurn()
  await gather(first.id, 1)
  await Promise.all([ask('b'), ask('c'), ask('d')])
  assert.deepEqual((await rows()).session, { head: 4, turn: first.id, epoch: 1 })
  const open = { ...textDraft('x'), id: formatId('message', 0, first.id) }
  assert.deepEqual(await append({ ...key, draft: open }), { type: 'conflict', seq: undefined })

  assert.deepEqual(await endTurn(doneBy(key, pod, first, 1)), { type: 'ended' })
  const second = await claimTurn()
  const { turns, tasks, messages, session } = await rows()
  assert.deepEqual(
    turns.map(({ epoch, from, to, outcome }) => ({ epoch, from, to, outcome })),
    [
      { epoch: 1, from: 1, to: 1, outcome: 'done' },
      { epoch: 2, from: 2, to: null, outcome: null },
    ],
  )
  assert.deepEqual(tasks, [second.id])
  assert.equal(session.turn, second.id)
  assert.equal(session.epoch, 2)
  assert.deepEqual(messages.at(-1), { id: open.id, answers: 1 })

  await gather(second.id, 5)
  assert.deepEqual(await endTurn(doneBy(key, pod, second, 2)), { type: 'ended' })
  assert.deepEqual((await rows()).session, { head: 6, turn: null, epoch: 2 })
  assert.deepEqual((await rows()).tasks, [])
})

test('a turn that failed stores no reply, and the next message starts a new turn', async (t) => {
  const { ask, claimTurn, endTurn, key, pod, rows, run } = await conversationOn(t)
  await ask('a')
  const { id, attempt } = await claimTurn()
  const failed = {
    ...key,
    turn: id,
    epoch: 1,
    attempt,
    pod,
    outcome: 'failed',
    error: '{"code":"x"}',
    draft: undefined,
  } as const
  assert.deepEqual(await endTurn({ ...failed, error: { code: 'x', message: 'Quoting what ada said' } }), {
    type: 'ended',
  })
  const { session, turns, messages } = await rows()
  const { outcome, to } = turns[0]!
  assert.deepEqual({ outcome, to }, { outcome: 'failed', to: 1 })
  assert.equal(session.turn, null)
  assert.equal(messages.length, 1)
  const history = await run((query) => query<{ error: object }>('select error from fleetline.task_history'))
  assert.doesNotMatch(JSON.stringify(history[0]!.error), /ada/, 'the task history keeps no message text')
  const next = await ask('b')
  assert.ok(next.type === 'stored', next.type)
  assert.equal(next.live?.epoch, 2)
})

test('E4: an ack names the live turn exactly if its message asks for a reply and has none yet', async (t) => {
  const { append, ask, claimTurn, endTurn, gather, key, pod } = await conversationOn(t)
  const epochOf = (appended: Awaited<ReturnType<typeof ask>>) =>
    appended.type === 'stored' ? appended.live?.epoch : assert.fail(appended.type)
  const note = () => append({ ...key, draft: textDraft('note') })
  assert.deepEqual(
    { a: epochOf(await ask('a')), note: epochOf(await note()), aAgain: epochOf(await ask('a')) },
    { a: 1, note: undefined, aAgain: 1 },
  )
  const first = await claimTurn()
  await gather(first.id, 2)
  assert.equal(epochOf(await ask('b')), 1, 'the live turn, although the next one answers b')
  await endTurn(doneBy(key, pod, first, 1))
  assert.deepEqual(
    { a: epochOf(await ask('a')), note: epochOf(await note()), b: epochOf(await ask('b')) },
    { a: undefined, note: undefined, b: 2 },
  )
})

test('E1: an end changes nothing if its claim, epoch or turn is not current, or if the turn has read nothing', async (t) => {
  const { ask, claimTurn, endTurn, gather, key, pod, rows, run } = await conversationOn(t)
  await ask('a')
  const lost = await claimTurn()
  await run((query) =>
    query(`update fleetline.tasks set state = 'ready', pod = null where id = $1`, [lost.id]),
  )
  const other = await run((query) => join(query, { name: 'other', version: '0', tracks: [] }))
  const current = await claimTurn(other)
  assert.deepEqual(await endTurn(doneBy(key, other, current, 1)), { type: 'fenced' }, 'nothing was read')
  await gather(current.id, 1)
  const before = await rows()
  const stranger = { ...current, id: '01980000-0000-7000-8000-000000000000' }
  const answers = await Promise.all([
    endTurn(doneBy(key, pod, lost, 1)),
    endTurn(doneBy(key, pod, current, 1)),
    endTurn(doneBy(key, other, current, 2)),
    endTurn(doneBy(key, other, stranger, 1)),
    ask('b'),
  ])
  assert.deepEqual(
    answers.map(({ type }) => type),
    ['fenced', 'fenced', 'fenced', 'fenced', 'stored'],
  )
  assert.deepEqual(await rows(), {
    ...before,
    session: { ...before.session, head: 2 },
    messages: [...before.messages, { id: 'b', answers: null }],
  })
  const twice = [doneBy(key, other, current, 1), doneBy(key, other, current, 1)]
  assert.deepEqual(await Promise.all(twice.map(endTurn)), [{ type: 'ended' }, { type: 'ended' }])
  const { session, messages } = await rows()
  assert.equal(session.epoch, 2, `epoch ${session.epoch}: the next turn answers b`)
  assert.equal(messages.length, 3)
  const foreign = { ...doneBy(key, other, current, 2), draft: textDraft('x') }
  await assert.rejects(endTurn(foreign), /the id of its turn/)
})

test('the first attempt fixes what a turn reads, if its claim and its epoch are current', async (t) => {
  const { append, ask, claimTurn, key, pod, rows, run } = await conversationOn(t)
  await ask('a')
  await append({ ...key, draft: textDraft('b') })
  const { id, attempt } = await claimTurn()
  const readTo = async (claim: HeldClaim, text = TURN_OPEN) =>
    (await run((query) => openTurn((_, values) => query(text, values), key.tenant, claim)))?.readTo
  const mine = { id, attempt, pod }
  assert.equal(await readTo({ ...mine, attempt: 2 }), undefined)
  assert.equal(await readTo({ ...mine, pod: pod + 1 }), undefined)
  await run((query) => query('update fleetline.sessions set epoch = 7'))
  assert.equal(await readTo(mine), undefined)
  await run((query) => query('update fleetline.sessions set epoch = 1'))
  assert.equal((await rows()).turns[0]!.to, null, 'no attempt has fixed it yet')
  assert.equal(await readTo(mine), 2)
  await ask('c')
  assert.equal(await readTo(mine), 2)
  const moving = TURN_OPEN.replace('coalesce(t.read_to, ', 'coalesce(null::int, ')
  assert.notEqual(moving, TURN_OPEN)
  assert.equal(
    await readTo(mine, moving),
    3,
    'mutant: a second attempt would answer more than the first has shown',
  )
})

test('R3 E4: a turn that a pod of the previous release has started reads up to the head, however many messages it has', async (t) => {
  const { append, ask, claimTurn, key, pod, run } = await conversationOn(t)
  const notes = Array.from({ length: 600 }, (_, n) => append({ ...key, draft: textDraft(`note ${n}`) }))
  await Promise.all(notes)
  await ask('question')
  await run((query) => query('update fleetline.turns set asked_from = null'))
  const { id, attempt } = await claimTurn()
  const turn = await run((query) => openTurn(query, key.tenant, { id, attempt, pod }))
  assert.deepEqual([turn?.readFrom, turn?.readTo], [1, 601])
})

test('an end whose answer was lost is recognized when it is sent again, even after the next turn has started', async (t) => {
  const { ask, claimTurn, database, endTurn, gather, key, pod, rows } = await conversationOn(t)
  await ask('a')
  const first = await claimTurn()
  await gather(first.id, 1)
  await ask('b')
  const silent: Transactions = {
    transaction: async (work, options) => {
      await database.transaction(work, options)
      return { type: 'unknown', error: new Error('the answer is lost') }
    },
  }
  await assert.rejects(driversOf(silent, key).endTurn(doneBy(key, pod, first, 1)), /is not known/)
  const after = await rows()
  assert.equal(after.session.epoch, 2)
  assert.deepEqual(await endTurn(doneBy(key, pod, first, 1)), { type: 'ended' })
  assert.deepEqual(await endTurn(doneBy(key, pod, { ...first, attempt: 2 }, 1)), { type: 'fenced' })
  assert.deepEqual(await rows(), after)
})

test('the end of a turn creates a missing day of the task history', async (t) => {
  const { ask, claimTurn, endTurn, gather, key, pod, run } = await conversationOn(t)
  await ask('a')
  const turn = await claimTurn()
  await gather(turn.id, 1)
  await run((query) =>
    query(`do $$ declare day text; begin
      for day in select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
                  where i.inhparent = 'fleetline.task_history'::regclass loop
        execute format('drop table fleetline.%I', day);
      end loop; end $$`),
  )
  assert.deepEqual(await endTurn(doneBy(key, pod, turn, 1)), { type: 'ended' })
})

test('mutant, settle without epoch: an older epoch writes, E1 turns red', async (t) => {
  const { ask, claimTurn, database, endTurn, gather, key, pod, rows, run } = await conversationOn(t)
  await ask('a')
  const first = await claimTurn()
  await gather(first.id, 1)
  // The epoch of the session has grown while the claim is still current: only the epoch can fence this end.
  await run((query) => query('update fleetline.sessions set epoch = 7'))
  assert.deepEqual(await endTurn(doneBy(key, pod, first, 1)), { type: 'fenced' })
  const unchecked = (query: Query): Query =>
    (async (text: string, values?: readonly unknown[]) => {
      const found = await query<object>(text, values)
      return text === SESSION_LOCK ? found.map((row) => ({ ...row, epoch: 1 })) : found
    }) as Query
  const mutant = driversOf(mutated(database, unchecked), key)
  assert.deepEqual(await mutant.endTurn(doneBy(key, pod, first, 1)), { type: 'ended' })
  assert.equal((await rows()).messages.length, 2, 'the write of epoch 1 is in the log of epoch 7')
})

test('mutant, turn in a second transaction: a pod that dies in between loses the wake-up, E4 turns red', async (t) => {
  const isWoken = async ({ rows }: Awaited<ReturnType<typeof conversationOn>>) => {
    const { session, turns, tasks } = await rows()
    return turns.some(({ id }) => id === session.turn) && tasks.includes(session.turn!)
  }
  const [control, cut] = [await conversationOn(t), await conversationOn(t)]
  await control.ask('a')
  assert.equal(await isWoken(control), true)

  const later: string[] = [] // statements of the second transaction; the pod dies before it runs them
  const apart = (query: Query): Query =>
    (async (text: string, values: readonly unknown[] = []) => {
      if (text !== TURN_START && text !== TURN_TASKS) return query(text, values)
      later.push(text)
      return [{}] // as many rows as the statement would have written
    }) as Query
  await driversOf(mutated(cut.database, apart), cut.key).ask('a')
  assert.equal(later.length, 2)
  assert.equal(await isWoken(cut), false)
  await cut.ask('b')
  assert.equal(await isWoken(cut), false, 'the next message does not wake it either')
})
