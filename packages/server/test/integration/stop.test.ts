// Stops a turn: from the other pod in the middle of a reply, while its agent is silent, and while the turn ends.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { formatId, type Ack, type Item, type StopAck, type Turn } from '@fleetline/protocol'
import type { AgentDefinition } from '../../src/agent/agent.ts'
import { SESSION_LOCK } from '../../src/session/append.ts'
import type { Database } from '../../src/store/database.ts'
import { HALTING } from '../../src/turn/halts.ts'
import { createUsageList } from '../../src/usage/list.ts'
import { eventually } from '../support/eventually.ts'
import { textDraft } from '../support/history.ts'
import { call } from '../support/http.ts'
import { explaining } from '../support/plan.ts'
import { openText, type Reader } from '../support/reader.ts'
import { conversationOn, doneBy, driversOf } from '../support/turns.ts'
import { twoPodsOn } from '../support/two-pods.ts'

async function podsOn(t: TestContext, answer: AgentDefinition['answer']) {
  const { at, pods, run, send, follow } = await twoPodsOn(t, answer)
  return {
    run,
    send,
    /** From the other pod. */
    stop: async ({ turn, epoch }: Pick<Ack, 'turn' | 'epoch'>) =>
      (await call('POST', `${at('there')}/stop`, { turn, epoch })).body as unknown as StopAck,
    turn: async (id: string) => (await call('GET', `${pods.there}/v1/turns/${id}`)).body as unknown as Turn,
    readers: async () => [await follow('here'), await follow('there')],
    back: ({ lastId }: Reader) => follow('there', { 'last-event-id': lastId()! }),
  }
}

const untilSaid = (readers: readonly Reader[], turn: string, text: string) =>
  eventually(() => readers.forEach(({ frames }) => assert.equal(openText(frames, turn), text)), {
    what: `the readers to have: ${text}`,
  })
const textOf = ({ parts }: Item) => parts.map(({ type, text, state }) => [type, text, state])

test('E8: a stop from another pod closes the call of the agent, and keeps only what it has said so far', async (t) => {
  const [closed, wanted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const inputs: unknown[] = []
  const pods = await podsOn(t, async function* ({ messages, signal }) {
    inputs.push(messages.map(({ parts }) => parts))
    if (inputs.length > 1) {
      yield { type: 'finish' }
      return
    }
    yield { type: 'reasoning-start', id: 'r' }
    yield { type: 'reasoning-delta', id: 'r', delta: 'hm' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'said in time' }
    signal.addEventListener('abort', () => closed.resolve())
    try {
      await closed.promise
      yield { type: 'text-delta', id: '1', delta: ' too late' }
    } finally {
      await wanted.promise // the agent's call does not end before that
    }
  })
  const readers = await pods.readers()
  const { turn, epoch } = await pods.send('hi')
  await untilSaid(readers, turn!, 'hmsaid in time')
  const sealed = [
    ['reasoning', 'hm', 'done'],
    ['text', 'said in time', 'done'],
  ]
  assert.deepEqual(await pods.stop({ turn: turn!, epoch: epoch! }), { stopped: true, seq: 2 })
  const tasks = await pods.run('select outcome from fleetline.task_history')
  assert.deepEqual(tasks, [{ outcome: 'cancelled' }])
  await closed.promise
  const isTold = (halted: boolean) =>
    eventually(
      () => {
        for (const { frames, items } of readers) {
          const reply = items[1]!
          assert.deepEqual(textOf(reply), sealed)
          assert.equal(reply.status, 'stopped')
          assert.equal(reply.answers, 1)
          const last = frames.at(-1)!
          assert.ok(last.type === 'turn', last.type)
          assert.equal(last.turn.state, 'stopped')
          assert.equal(last.turn.halted, halted)
          assert.equal(last.turn.pod, null)
        }
      },
      { what: `the readers to be told, halted: ${halted}` },
    )
  await isTold(false)
  assert.equal((await pods.turn(turn!)).halted, false)
  readers.push({ ...(await pods.back(readers[1]!)), items: readers[1]!.items })
  wanted.resolve()
  await isTold(true)
  assert.deepEqual(await pods.stop({ turn: turn!, epoch: epoch! }), { stopped: true, seq: 2 }, 'a repeat')
  assert.deepEqual(await pods.stop({ turn: turn!, epoch: epoch! + 1 }), { stopped: false, seq: null })

  const next = await pods.send('go on')
  assert.equal(next.seq, 3)
  assert.equal(next.epoch, epoch! + 2)
  await eventually(() => assert.equal(inputs.length, 2), { what: 'the next call' })
  assert.deepEqual(
    (inputs[1] as Item['parts'][]).map((parts) => textOf({ parts } as Item)),
    [[['text', 'hi', undefined]], sealed, [['text', 'go on', undefined]]],
  )
  await eventually(async () => assert.equal((await pods.turn(next.turn!)).state, 'done'), { what: 'its end' })
  assert.deepEqual(
    await pods.stop({ turn: turn!, epoch: epoch! }),
    { stopped: true, seq: 2 },
    'a late repeat',
  )
  assert.deepEqual(await pods.stop(next), { stopped: false, seq: null }, 'the turn ended by itself')
  assert.deepEqual(await pods.run('select from fleetline.messages'), [{}, {}, {}])
})

test('E8: a silent agent is stopped too, and no reply is stored', async (t) => {
  const closed = Promise.withResolvers<void>()
  const pods = await podsOn(t, async function* ({ signal }) {
    signal.addEventListener('abort', () => closed.resolve())
    await closed.promise
    yield { type: 'text-start', id: '1' }
  })
  const ack = await pods.send('hi')
  await eventually(async () => assert.equal((await pods.turn(ack.turn!)).state, 'running'), {
    what: 'its run',
  })
  assert.deepEqual(await pods.stop(ack), { stopped: true, seq: null })
  await closed.promise
  await eventually(async () => assert.equal((await pods.turn(ack.turn!)).halted, true), { what: 'its halt' })
  assert.deepEqual(await pods.stop(ack), { stopped: true, seq: null }, 'a repeat')
  assert.deepEqual(await pods.run('select from fleetline.messages'), [{}], 'the question alone')
})

test('a stop of a turn that no pod has counts its messages as answered; the next turn starts after them', async (t) => {
  const { ask, stopTurn, rows, key, endTurn, claimTurn, pod } = await conversationOn(t)
  await ask('a')
  await ask('b')
  const { session: before } = await rows()
  const stop = { ...key, turn: before.turn!, epoch: 1 }
  const both = await Promise.all([stopTurn(stop), stopTurn(stop)])
  assert.deepEqual(
    both.map((one) => one.type === 'stopped' && { seq: one.seq, isRepeat: one.isRepeat }),
    [
      { seq: null, isRepeat: false },
      { seq: null, isRepeat: true },
    ],
  )
  const stopped = await rows()
  assert.equal(stopped.session.turn, null)
  assert.equal(stopped.session.epoch, 2)
  assert.deepEqual(stopped.tasks, [])
  assert.deepEqual(stopped.turns, [{ id: before.turn!, epoch: 1, from: 1, to: 2, outcome: 'stopped' }])
  await ask('c')
  const claim = await claimTurn()
  const { turns } = await rows()
  assert.equal(turns[1]!.epoch, 3)
  assert.equal(turns[1]!.from, 3)
  const late = doneBy(key, pod, { id: before.turn!, attempt: 1 }, 1)
  assert.deepEqual(await endTurn(late), { type: 'fenced' })
  assert.deepEqual(await stopTurn({ ...stop, turn: claim.id }), { type: 'stale' }, 'it names another epoch')
  assert.equal((await rows()).session.turn, claim.id)
})

/** A turn in which two attempts have said something. The second is current. */
async function spokenOn(t: TestContext) {
  const talk = await conversationOn(t)
  await talk.ask('a')
  const lost = await talk.claimTurn()
  await talk.gather(lost.id, 1)
  await talk.run((query) => query(`update fleetline.tasks set state = 'ready', pod = null`))
  const claim = await talk.claimTurn()
  const say = (attempt: number, index: number, chunks: readonly object[]) =>
    talk.run((query) =>
      query(
        `insert into fleetline.chunks (tenant, turn, attempt, index, count, body) values ($1, $2, $3, $4, $5, $6)`,
        [talk.key.tenant, claim.id, attempt, index, chunks.length, JSON.stringify(chunks)],
      ),
    )
  await say(claim.attempt, 0, [{ type: 'text-start', id: '1' }, delta('so far')])
  await say(lost.attempt, 2, [delta('of the dead')]) // this attempt has no index 0
  await say(claim.attempt, 2, [delta('\uD83D')]) // half of a character
  const reply = `select body -> 'parts' -> 0 ->> 'text' as text from fleetline.messages where seq = 2`
  return {
    ...talk,
    claim,
    stop: { ...talk.key, turn: claim.id, epoch: 1 },
    replyText: async () => (await talk.run((query) => query<{ text: string }>(reply)))[0]?.text,
  }
}

function delta(text: string) {
  return { type: 'text-delta', id: '1', delta: text }
}

test('D4 E8: a stop keeps what the current attempt has said, in whole characters; a mutant that keeps words of any attempt is found', async (t) => {
  const [right, wrong] = [await spokenOn(t), await spokenOn(t)]
  await right.stopTurn(right.stop)
  assert.equal(await right.replyText(), 'so far')
  const swap = (text: string) => text.replace(' and attempt = w.attempt', '')
  const mutant: Pick<Database, 'transaction'> = {
    transaction: (work, options) =>
      wrong.database.transaction((query) => work((text, values) => query(swap(text), values)), options),
  }
  await driversOf(mutant, wrong.key).stopTurn(wrong.stop)
  assert.notEqual(await wrong.replyText(), 'so far')
})

/** A turn that no pod has, after the pods of these attempts have died. Each had reported ten tokens more than the one before. */
async function lostOn(t: TestContext, attempts: readonly number[]) {
  const talk = await conversationOn(t)
  await talk.ask('a')
  const { ofTurn } = createUsageList(talk)
  let turn = ''
  for (const attempt of attempts) {
    turn = (await talk.claimTurn()).id
    const usage = { type: 'data-usage', data: { usage: { inputTokens: 10 * attempt } } }
    const lost = `fleetline.fault(error, jsonb_build_object('code', 'pod_lost', 'attempt', attempt))`
    await talk.run(async (query) => {
      await query(
        'insert into fleetline.chunks (tenant, turn, attempt, index, count, body) values ($1, $2, $3, 0, 1, $4)',
        [talk.key.tenant, turn, attempt, JSON.stringify([usage])],
      )
      await query(`update fleetline.tasks set state = 'ready', pod = null, error = ${lost}`)
    })
  }
  const used = async () =>
    (await ofTurn(talk.key.tenant, turn)).map(({ attempt, outcome, inputTokens }) => [
      attempt,
      outcome,
      inputTokens,
    ])
  return { ...talk, stop: { ...talk.key, turn, epoch: 1 }, used }
}
const DEADLINE = { code: 'deadline', message: 'too late' }

test('E9: what an attempt had used when its pod died is counted if the turn is stopped or expires before the next attempt', async (t) => {
  const [stopped, expired] = [await lostOn(t, [1]), await lostOn(t, [1])]
  await stopped.stopTurn(stopped.stop)
  assert.deepEqual(await stopped.used(), [[1, 'lost', 10]])
  await expired.expireTurn({ ...expired.stop, error: DEADLINE })
  assert.deepEqual(await expired.used(), [[1, 'lost', 10]])
})

test('L11 E9: two stops and an expiry of one turn, in one batch, count its lost attempts once, and a message in that batch is stored', async (t) => {
  const { stop, stopTurn, expireTurn, append, key, used } = await lostOn(t, [1, 2])
  const results = await Promise.all([
    stopTurn(stop),
    stopTurn(stop),
    expireTurn({ ...stop, error: DEADLINE }),
    append({ ...key, draft: textDraft('b') }),
  ])
  assert.deepEqual(
    results.map(({ type }) => type),
    ['stopped', 'stopped', 'fenced', 'stored'],
  )
  assert.deepEqual(await used(), [
    [1, 'lost', 10],
    [2, 'lost', 20],
  ])
})

test('a turn that started in a month without a partition for its usage is stopped, without a row', async (t) => {
  const { ask, claimTurn, stopTurn, run, database, key } = await conversationOn(t)
  await ask('a')
  const { id: turn } = await claimTurn()
  await run((query) => query(`update fleetline.turns set started_at = now() - interval '200 days'`))
  const stopped = await stopTurn({ ...key, turn, epoch: 1 })
  assert.equal(stopped.type, 'stopped')
  assert.deepEqual(await createUsageList({ database }).ofTurn(key.tenant, turn), [])
})

test('the query for turns that are halting does not read turns that are over', async (t) => {
  const { run, key, pod } = await conversationOn(t)
  const add = `insert into fleetline.turns
      (started_at, ended_at, id, session, tenant, epoch, read_from, agent, outcome, halting)
    select now(), now(), gen_random_uuid(), gen_random_uuid(), $1, 1, 1, 'demo', 'stopped', $2
      from generate_series(1, $3)`
  const { plans } = await run(async (query) => {
    await query(add, [key.tenant, null, 50_000])
    await query(add, [key.tenant, pod, 10])
    await query('analyze fleetline.turns')
    const explained = explaining(query)
    await explained.query(HALTING, [pod])
    return explained
  })
  assert.match(plans[0]!.text, /turns_halting/)
  assert.ok(plans[0]!.buffers < 100, `${plans[0]!.buffers} pages`)
})

/** A transaction of `held` locks the session and then waits until `letGo` is called. */
function holding(database: Pick<Database, 'transaction'>) {
  const [locked, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const held: Pick<Database, 'transaction'> = {
    transaction: (work, options) =>
      database.transaction(
        (query) =>
          work(async (text, values) => {
            const rows = await query(text, values)
            if (text === SESSION_LOCK) {
              locked.resolve()
              await free.promise
            }
            return rows as never
          }),
        options,
      ),
  }
  return { held, locked: locked.promise, letGo: free.resolve }
}

for (const first of ['stop', 'end'] as const)
  test(`E1 E8: if a turn is stopped while it ends and the ${first} comes first, the other changes nothing`, async (t) => {
    const talk = await spokenOn(t)
    const { key, pod, claim } = talk
    const { held, locked, letGo } = holding(talk.database)
    const ways = {
      [first]: driversOf(held, key),
      [first === 'stop' ? 'end' : 'stop']: driversOf(talk.database, key),
    }
    const end = () => ways['end']!.endTurn(doneBy(key, pod, claim, 1))
    const stop = () => ways['stop']!.stopTurn(talk.stop)
    const leads = first === 'stop' ? stop() : end()
    await locked
    const follows = first === 'stop' ? end() : stop()
    const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'fleetline.sessions'
                     and datname = current_database()`
    await eventually(async () => assert.equal((await talk.run((query) => query(waits))).length, 1), {
      what: 'the second to wait for the lock',
    })
    letGo()
    const results = await Promise.all([leads, follows])
    const { session, turns, messages } = await talk.rows()
    const reply = { id: formatId('message', 0, claim.id), answers: 1 }
    assert.deepEqual(messages, [{ id: 'a', answers: null }, reply])
    if (first === 'stop') {
      assert.deepEqual(results, [{ type: 'stopped', seq: 2, isRepeat: false }, { type: 'fenced' }])
      assert.equal(session.epoch, 2)
      assert.equal(turns[0]!.outcome, 'stopped')
    } else {
      assert.deepEqual(results, [{ type: 'ended' }, { type: 'stale' }])
      assert.equal(session.epoch, 1)
      assert.equal(turns[0]!.outcome, 'done')
    }
    assert.equal(await talk.replyText(), first === 'stop' ? 'so far' : 'reply of 1')
  })
