// Pods with different agents in their code. A pod that has the agent answers the turn, once, and no attempt is spent on other pods.
// A turn whose agent no pod has waits, says why, and ends at its deadline.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Ack, Page, Turn } from '@fleetline/protocol'
import { agent } from '../../src/agent/agent.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { OVERDUE } from '../../src/session/duties.ts'
import { TURN_DEADLINE_MS, TURN_TASKS } from '../../src/session/turns.ts'
import { agentServer, lines } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'
import { saying } from '../support/talk.ts'
import { conversationOn, driversOf } from '../support/turns.ts'

const KEY = { secretsKey: Buffer.alloc(32, 7).toString('base64'), agentHosts: '127.0.0.1' }

async function fleetOn(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async (text: string) => valueOf(await database.transaction((query) => query(text)), 'not run')
  const turnAt = async (gateway: string, id: string) =>
    (await call('GET', `${gateway}/v1/turns/${id}`)).body as unknown as Turn
  return {
    url,
    run,
    turnAt,
    /** A pod with these agents in its code. A reply names its agent and its pod. */
    podWith: (podName: string, names: readonly string[]) =>
      podOn(
        t,
        url,
        { ...KEY, podName },
        { agents: names.map((name) => agent(name, () => saying(`${name} of ${podName}`))) },
      ),
    ask: async (gateway: string, name: string) => {
      const { session } = await makeSession(gateway, { agent: name })
      const { body } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text: 'hi' })
      return { session, turn: (body as unknown as Ack).turn! }
    },
    untilTurn: (gateway: string, id: string, is: (turn: Turn) => boolean) =>
      eventually(
        async () => {
          const turn = await turnAt(gateway, id)
          assert.ok(is(turn), JSON.stringify(turn))
          return turn
        },
        { what: 'the turn' },
      ),
    textIn: async (gateway: string, session: string) => {
      const { body } = await call('GET', `${gateway}/v1/sessions/${session}/messages`)
      return (body as unknown as Page).items.map(({ parts }) => parts[0]!['text'])
    },
  }
}

const isDone = ({ state }: Turn) => state === 'done'

test('E5: a pod that has the agent answers each turn, once and at its first attempt', async (t) => {
  const fleet = await fleetOn(t)
  const first = await fleet.podWith('first', ['one'])
  const second = await fleet.podWith('second', [])
  const gateways = [first.gateway, second.gateway]
  const talks = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => fleet.ask(gateways[n % 2]!, 'one')),
  )
  const third = await fleet.podWith('third', ['one', 'two'])
  const more = await Promise.all(
    Array.from({ length: 20 }, async (_, n) =>
      fleet.ask([...gateways, third.gateway][n % 3]!, n % 2 === 0 ? 'one' : 'two'),
    ),
  )
  for (const { session, turn } of [...talks, ...more]) {
    const { attempt, agent: name } = await fleet.untilTurn(second.gateway, turn, isDone)
    assert.equal(attempt, 1)
    const [asked, said, ...rest] = await fleet.textIn(second.gateway, session)
    assert.equal(asked, 'hi')
    assert.deepEqual(rest, [], 'one reply only')
    assert.match(said as string, name === 'two' ? /^two of third$/ : /^one of (first|third)$/)
  }
})

test('a turn whose agent no pod has waits and says why; a pod that brings the agent answers it', async (t) => {
  const fleet = await fleetOn(t)
  const old = await fleet.podWith('old', ['one'])
  const { gateway } = await fleet.podWith('other', [])
  await old.pod.stop()
  const { turn, session } = await fleet.ask(gateway, 'one')
  const waiting = await fleet.untilTurn(gateway, turn, ({ waitsFor }) => waitsFor !== null)
  const { state, waitsFor, attempt, pod } = waiting
  assert.deepEqual(
    { state, waitsFor, attempt, pod },
    { state: 'queued', waitsFor: 'agent_unknown', attempt: 0, pod: null },
  )
  await fleet.podWith('new', ['one'])
  assert.equal((await fleet.untilTurn(gateway, turn, isDone)).attempt, 1)
  assert.deepEqual(await fleet.textIn(gateway, session), ['hi', 'one of new'])

  const { body } = await call('POST', `${gateway}/v1/sessions`, { agent: 'nobody' })
  assert.match(JSON.stringify(body), /there is no agent nobody/)
})

test('the deadline ends a turn that no pod claims', async (t) => {
  const fleet = await fleetOn(t)
  const old = await fleet.podWith('old', ['one'])
  const { gateway } = await podOn(t, fleet.url) // it runs no turns at all
  await old.pod.stop()
  const { turn, session } = await fleet.ask(gateway, 'one')
  await fleet.run(`update fleetline.turns set started_at = now() - interval '16 minutes'`)
  const { error, state, attempt } = await fleet.untilTurn(gateway, turn, ({ endedAt }) => endedAt !== null)
  assert.deepEqual({ state, code: error!.code, attempt }, { state: 'failed', code: 'deadline', attempt: 0 })
  assert.deepEqual(await fleet.run('select from fleetline.tasks'), [])
  const { body } = await call('GET', `${gateway}/v1/sessions/${session}`)
  assert.equal(body['state'], 'idle')
})

test('an agent that moves from code into the directory, or back, answers the turns that wait', async (t) => {
  const fleet = await fleetOn(t)
  const server = await agentServer(t, (_, response) => lines(response))
  const old = await fleet.podWith('old', ['one'])
  const { gateway } = await fleet.podWith('other', [])
  const add = () => call('POST', `${gateway}/v1/agents`, { name: 'one', url: server.url })
  assert.equal((await add()).status, 409, 'a live pod has it in its code')
  await old.pod.stop()
  const { turn } = await fleet.ask(gateway, 'one')
  assert.equal((await add()).status, 201)
  await fleet.untilTurn(gateway, turn, isDone)
  assert.equal(server.received.length, 1)

  await call('DELETE', `${gateway}/v1/agents/one`)
  await fleet.run("delete from fleetline.tracks where shape = 'code:one'")
  await fleet.run("update fleetline.pods set tracks = null where name = 'old'") // as if it had never been in code
  await fleet.run(`update fleetline.sessions set agent = 'one' where agent is not null`)
  const again = await call('POST', `${gateway}/v1/sessions/${(await sessionsOn(gateway))[0]}/messages`, {
    text: 'again',
  })
  const waits = (again.body as unknown as Ack).turn!
  const { waitsFor, attempt } = await fleet.untilTurn(gateway, waits, ({ retryAt }) => retryAt !== null)
  assert.deepEqual({ waitsFor, attempt }, { waitsFor: 'agent_unknown', attempt: 1 })
  await fleet.podWith('new', ['one'])
  await fleet.run(`update fleetline.tasks set run_at = now() where state = 'waiting'`)
  await fleet.untilTurn(gateway, waits, isDone)
  assert.equal(server.received.length, 1, 'the agent in code answered')
})

async function sessionsOn(gateway: string): Promise<string[]> {
  const { body } = await call('GET', `${gateway}/v1/sessions`)
  return (body['sessions'] as { readonly session: string }[]).map(({ session }) => session)
}

test('E1: an expiry ends a turn only in its epoch and while no pod has it; its attempt is fenced afterwards', async (t) => {
  const { ask, claimTurn, endTurn, expireTurn, key, pod, rows, run } = await conversationOn(t)
  const asked = await ask('a')
  assert.ok(asked.type === 'stored' && asked.live)
  const error = { code: 'deadline', message: '' }
  const expiry = { ...key, ...asked.live, error }
  assert.deepEqual(await expireTurn({ ...expiry, epoch: 7 }), { type: 'fenced' }, 'another epoch')
  const claimed = await claimTurn()
  assert.deepEqual(await expireTurn(expiry), { type: 'fenced' }, 'a pod has it')
  await run((query) => query(`update fleetline.tasks set state = 'ready', pod = null`))
  assert.deepEqual(await expireTurn(expiry), { type: 'ended' })
  assert.deepEqual(await expireTurn(expiry), { type: 'fenced' }, 'it has ended')
  const { session, tasks, turns, messages } = await rows()
  assert.equal(session.turn, null)
  assert.deepEqual(tasks, [])
  assert.equal(turns[0]!.outcome, 'failed')
  assert.equal(messages.length, 1)
  const zombie = { ...key, ...asked.live, attempt: claimed.attempt, pod, outcome: 'failed', error } as const
  assert.deepEqual(await endTurn({ ...zombie, draft: undefined }), { type: 'fenced' })
})

test('an expiry starts the next turn for the messages that wait; a turn that is not overdue is left alone', async (t) => {
  const { ask, expireTurn, gather, key, rows, run } = await conversationOn(t)
  const asked = await ask('a')
  assert.ok(asked.type === 'stored' && asked.live)
  await gather(asked.live.turn, 1)
  await ask('b')
  const overdue = () => run((query) => query<{ turn: string }>(OVERDUE, [TURN_DEADLINE_MS]))
  assert.deepEqual(await overdue(), [])
  await run((query) => query(`update fleetline.turns set started_at = now() - interval '16 minutes'`))
  assert.deepEqual(
    (await overdue()).map(({ turn }) => turn),
    [asked.live.turn],
  )
  await expireTurn({ ...key, ...asked.live, error: { code: 'deadline', message: '' } })
  assert.deepEqual(
    (await rows()).turns.map(({ epoch, from, outcome }) => ({ epoch, from, outcome })),
    [
      { epoch: 1, from: 1, outcome: 'failed' },
      { epoch: 2, from: 2, outcome: null },
    ],
  )
})

test('mutant: a turn that any pod claims is not answered at its first attempt', async (t) => {
  const { database, key, run } = await conversationOn(t)
  await run((query) =>
    query(`insert into fleetline.tracks (queue, machine, shape, max_attempts)
           select queue, machine, 'code:demo', max_attempts from fleetline.tracks where machine = 'turn'`),
  )
  const shapes = () =>
    run((query) =>
      query<{ shape: string }>(
        `select k.shape from fleetline.tasks t join fleetline.tracks k on k.id = t.track order by t.id`,
      ),
    )
  await driversOf(database, key).ask('a')
  assert.deepEqual(await shapes(), [{ shape: 'code:demo' }])
  const mutant = (query: Query): Query => {
    return (text, values) =>
      query(
        text === TURN_TASKS ? text.replace('(tenant, agent) as track', `(tenant, '') as track`) : text,
        values,
      )
  }
  await run((query) => query('update fleetline.sessions set turn = null'))
  await run((query) => query('delete from fleetline.turns'))
  const wrong: Pick<Database, 'transaction'> = {
    transaction: (work, options) => database.transaction((query) => work(mutant(query)), options),
  }
  await driversOf(wrong, key).ask('b')
  assert.deepEqual(await shapes(), [{ shape: 'code:demo' }, { shape: 'session' }])
})
