// Conversations that have become long: when they are summarised, what the agent is sent then, and what happens if it cannot summarise.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Session } from '@fleetline/protocol'
import { verify } from '../../src/agent-kit.ts'
import { agent, type AgentCall, type CompactCall } from '../../src/agent/agent.ts'
import { openCompaction } from '../../src/session/compactions.ts'
import { OVERDUE_COMPACTIONS, sessionDuties } from '../../src/session/duties.ts'
import type { Database } from '../../src/store/database.ts'
import { agentServer, lines, SAID, type Answer } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { explaining } from '../support/plan.ts'
import { podOn } from '../support/pod.ts'
import { appenderOn } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { saying, talkOn } from '../support/talk.ts'
import { conversationOn } from '../support/turns.ts'

/** 700 tokens are long enough. */
const BUDGET = { tokenBudget: 1_000 }
/** As an answer, it makes a conversation longer by about 500 tokens. */
const PAGE = 'x'.repeat(2_000)
const NEWEST = 'select upto, text from fleetline.summaries order by upto desc limit 1'
const STORED = `select md5(string_agg(md5(m::text), '' order by seq)) as stored, count(*)::int from fleetline.messages m where seq <= 4`

type Talk = Awaited<ReturnType<typeof talkOn>>
type Said = Pick<AgentCall, 'messages'>

const textsOf = ({ messages }: Said) => messages.map(({ parts }) => String(parts[0]!['text']).slice(0, 60))

/** An agent that answers each message with `PAGE`. */
async function longTalk(t: TestContext, compact: (call: CompactCall) => string | Promise<string>) {
  const [calls, compactions]: [Said[], CompactCall[]] = [[], []]
  const inCode = agent(
    'writer',
    (asked) => {
      calls.push(asked)
      return saying(PAGE)
    },
    {
      compact: (asked) => {
        compactions.push(asked)
        return compact(asked)
      },
      compaction: BUDGET,
    },
  )
  const url = await databaseFor(t)
  const lines: string[] = []
  const { pod, gateway, admin } = await podOn(t, url, { drainMs: '0' }, { agents: [inCode], lines })
  const talk = await talkOn(t, { url, gateway, agent: 'writer' })
  return {
    ...talk,
    url,
    admin,
    lines,
    stop: () => pod.stop(),
    calls,
    compactions,
    ask: (text: string) => ask(talk, text),
  }
}

async function ask(talk: Talk, text: string): Promise<void> {
  const { state } = await talk.ended((await talk.send(text)).turn!)
  assert.equal(state, 'done')
}

const untilState = (talk: Pick<Talk, 'get' | 'run'>, wanted: Session['state']) =>
  eventually(
    async () => {
      await talk.run(`update fleetline.tasks set run_at = now() where state = 'waiting'`)
      assert.equal((await talk.get()).state, wanted)
    },
    { what: `the session to be ${wanted}` },
  )

test('E10: a rewrite forgets the summaries of what it replaces, and no others; an edited beginning does not count as long', async (t) => {
  const talk = await longTalk(t, ({ through }) => `Up to ${through}.`)
  const at = `${talk.gateway}/v1/sessions/${talk.session}`
  const page = PAGE.slice(0, 60)
  const summary = (through: number) => `Summary of this conversation so far:\n\nUp to ${through}.`
  await talk.ask('zero')
  const { id } = (await talk.items())[0]!
  const parts = [{ type: 'text', text: 'one' }]
  const edited = await call('PUT', `${at}/messages/${id}`, { epoch: 1, parts })
  await talk.ended(String(edited.body['turn']))
  assert.deepEqual([(await talk.get()).state, textsOf(talk.calls[1]!)], ['idle', ['one']])
  for (const text of ['two', 'three', 'four']) {
    await talk.ask(text)
    await untilState(talk, 'idle')
  }
  assert.deepEqual(
    talk.compactions.map(({ through }) => through),
    [6, 10],
  )
  assert.deepEqual(textsOf(talk.compactions[1]!), [summary(6), 'three', page, 'four', page])
  const { epoch } = await talk.get()
  const again = await call('POST', `${at}/regenerate`, { epoch })
  await talk.ended(String(again.body['turn']))
  assert.deepEqual(textsOf(talk.calls.at(-1)!), [summary(6), 'three', page, 'four'])
})

test('E3 E7: a long conversation is summarised; a message sent meanwhile is answered afterwards, with the summary; the log stays as it is', async (t) => {
  const { promise: summary, resolve } = Promise.withResolvers<string>()
  const talk = await longTalk(t, () => summary)
  await talk.ask('one')
  assert.equal((await talk.get()).state, 'idle', 'it is not long yet')
  await talk.ask('two')
  await untilState(talk, 'compacting')
  const [before] = await talk.run(STORED)
  await eventually(() => assert.equal(talk.compactions.length, 1), { what: 'the call' })
  const [{ messages, through, trigger, turn, session }] = talk.compactions as [CompactCall]
  assert.deepEqual(textsOf({ messages }), ['one', PAGE.slice(0, 60), 'two', PAGE.slice(0, 60)])
  assert.deepEqual(
    { through, trigger, attempt: turn.attempt },
    { through: 4, trigger: 'compact', attempt: 1 },
  )
  assert.equal(session.id, talk.session)

  const meanwhile = await talk.send('three')
  assert.deepEqual([meanwhile.seq, meanwhile.turn, meanwhile.epoch], [5, undefined, 3])
  assert.equal((await talk.send('four')).epoch, 3)
  const stop = { turn: (await talk.items())[3]!.turn!, epoch: 2 }
  const at = `${talk.gateway}/v1/sessions/${talk.session}`
  assert.deepEqual((await call('POST', `${at}/stop`, stop)).body, { stopped: false, seq: null })
  assert.equal((await talk.get()).state, 'compacting')
  assert.equal(talk.calls.length, 2)

  resolve('They talked.')
  await eventually(async () => assert.equal((await talk.items()).length, 7), { what: 'the answer' })
  assert.deepEqual(textsOf(talk.calls[2]!), [
    'Summary of this conversation so far:\n\nThey talked.',
    'three',
    'four',
  ])
  assert.equal(talk.calls[2]!.messages[0]!.role, 'user')
  assert.deepEqual((await talk.items()).at(-1)!.answers, 6, 'one turn answers both')
  assert.deepEqual((await talk.run(STORED))[0], before)
  assert.deepEqual(await talk.run(NEWEST), [{ upto: 4, text: 'They talked.' }])
})

test('E7: the next summary is made of the one before and of what follows it', async (t) => {
  const talk = await longTalk(t, ({ messages }) => `of ${messages.length}`)
  for (const text of ['one', 'two', 'three', 'four']) {
    await talk.ask(text)
    await untilState(talk, 'idle')
  }
  assert.deepEqual(
    talk.compactions.map(({ through, messages }) => [through, messages.length, messages[0]!.id]),
    [
      [4, 4, talk.compactions[0]!.messages[0]!.id],
      [8, 5, 'summary-4'],
    ],
  )
  assert.deepEqual(await talk.run(NEWEST), [{ upto: 8, text: 'of 5' }])
})

test('after a fault that may pass there are four attempts, after a summary that cannot be stored only one; the next try comes 20 messages later', async (t) => {
  const answers = ['', 'x'.repeat(1_401), 'half \ud800 of a character', 'fits']
  const talk = await longTalk(t, () => answers.shift() ?? Promise.reject(new Error('not now')))
  for (const text of ['one', 'two']) await talk.ask(text)
  await untilState(talk, 'idle')
  assert.equal(talk.compactions.length, 1, 'a summary that cannot be stored fails at once')
  assert.equal(talk.compactions[0]!.maxTokens, 350)
  assert.deepEqual(await talk.run('select next_try_seq from fleetline.sessions'), [{ next_try_seq: 24 }])
  await talk.ask('three')
  assert.equal(talk.compactions.length, 1)
  const tryNow = () => talk.run('update fleetline.sessions set next_try_seq = 1')
  for (const text of ['four', 'five', 'six']) {
    await tryNow()
    await talk.ask(text)
    await untilState(talk, 'idle')
  }
  assert.deepEqual([talk.compactions.length, answers.length], [4, 0])
  assert.equal((await talk.run('select 1 from fleetline.summaries')).length, 1)
  for (const text of ['seven', 'eight']) await talk.ask(text)
  await untilState(talk, 'idle')
  assert.deepEqual(
    talk.compactions.slice(4).map(({ turn }) => turn.attempt),
    [1, 2, 3, 4],
  )
  const metrics = await (await fetch(`${talk.admin}/metrics`)).text()
  assert.match(metrics, /fleetline_compactions_total\{outcome="done"\} 1\n/)
  assert.match(metrics, /fleetline_compactions_total\{outcome="failed"\} 4\n/)
  assert.match(talk.lines.join('\n'), /not now.*could not be summarised/, 'the log says why')
})

test('E7: messages that the window leaves out are summarised, however short they are', async (t) => {
  const url = await databaseFor(t)
  const summed: CompactCall[] = []
  const calls: Said[] = []
  const brief = agent(
    'brief',
    (asked) => {
      calls.push(asked)
      return saying('yes')
    },
    {
      window: { messages: 4 },
      compact: (asked) => {
        summed.push(asked)
        return `up to ${asked.through}`
      },
    },
  )
  const { gateway } = await podOn(t, url, {}, { agents: [brief] })
  const talk = await talkOn(t, { url, gateway, agent: 'brief' })
  for (const text of ['one', 'two', 'three', 'four']) {
    await ask(talk, text)
    await untilState(talk, 'idle')
  }
  assert.deepEqual(
    summed.map(({ through }) => through),
    [6],
  )
  assert.deepEqual(textsOf(calls.at(-1)!), ['Summary of this conversation so far:\n\nup to 6', 'four'])
})

test('E7: a conversation that one call cannot carry is summarised in several, one after the other', async (t) => {
  const talk = await longTalk(t, ({ through }) => `up to ${through}`)
  const at = `${talk.gateway}/v1/sessions/${talk.session}/messages`
  const notes = Array.from({ length: 1_100 }, (_, n) => ({ text: `note ${n}`, reply: false }))
  for (let n = 0; n < notes.length; n += 100)
    await Promise.all(notes.slice(n, n + 100).map((note) => call('POST', at, note)))
  await talk.ask('go')
  await untilState(talk, 'idle')
  assert.deepEqual(
    talk.compactions.map(({ through }) => through),
    [500, 1_000, 1_102],
  )
  assert.deepEqual(await talk.run(NEWEST), [{ upto: 1_102, text: 'up to 1102' }])
})

/** A conversation that is compacted, and whose compaction no pod has. */
async function abandoned(t: TestContext) {
  const { promise: never } = Promise.withResolvers<string>()
  const talk = await longTalk(t, () => never)
  for (const text of ['one', 'two']) await talk.ask(text)
  await untilState(talk, 'compacting')
  await eventually(() => assert.equal(talk.compactions.length, 1), { what: 'the call' })
  await talk.stop()
  const set = (changes: string) =>
    talk.run(`update fleetline.tasks set ${changes}
               where track in (select id from fleetline.tracks where machine = 'compact')`)
  const database = await openDatabase(t, talk.url)
  const phase = async () =>
    (
      await talk.run('select compacting is null as "isOver", next_try_seq as "from" from fleetline.sessions')
    )[0]
  return { ...talk, set, phase, database, expire: () => expireCompactions(database) }
}

/** What the leader does every five seconds. */
async function expireCompactions(database: Database): Promise<void> {
  const { expireTurn, endCompaction } = appenderOn(database)
  const duties = sessionDuties({ database, expireTurn, endCompaction, cell: 0, onReady: () => undefined })
  const { run } = duties.find(({ name }) => name === 'compactions that no pod runs')!
  await run({ term: 0, pod: 0 }, () => true)
}

const ABANDONED = `pod = null, claimed_at = null, attempt = attempt + 1, created_at = now() - interval '4 minutes'`
const UNDER_WAY = { isOver: false, from: 0 }

test('E7: the leader ends a compaction after three minutes if no pod has it', async (t) => {
  for (const state of [
    `state = 'ready'`,
    `state = 'waiting', reason = 'suspect', run_at = now() + interval '1 hour'`,
    `state = 'waiting', reason = 'retry', run_at = now()`,
    `state = 'waiting', reason = 'later', run_at = now()`,
  ]) {
    const { set, phase, expire } = await abandoned(t)
    await set(
      `${ABANDONED}, ${state}, created_at = now() - interval '2 minutes'`.replace(
        `created_at = now() - interval '4 minutes', `,
        '',
      ),
    )
    await expire()
    assert.deepEqual(await phase(), UNDER_WAY, 'its time is not over')
    await set(`created_at = now() - interval '4 minutes'`)
    await expire()
    assert.deepEqual(await phase(), { isOver: true, from: 24 })
  }
})

test('the query for overdue compactions does not read other tasks', async (t) => {
  const { run } = await conversationOn(t)
  const add = `insert into fleetline.tasks (id, tenant, track, max_attempts, input, state, reason, run_at, created_at)
    select gen_random_uuid(), 1, 1000 + n % 10, 5, '{}', (array['ready', 'waiting', 'waiting'])[1 + n % 3]::fleetline.task_state,
           (array[null, 'retry', 'suspect'])[1 + n % 3], now() + interval '1 hour', now() - interval '1 day'
      from generate_series(1, 30000) n`
  const { plans } = await run(async (query) => {
    await query(add)
    await query('analyze fleetline.tasks')
    const explained = explaining(query)
    await explained.query(OVERDUE_COMPACTIONS, [0])
    return explained
  })
  assert.ok(plans[0]!.buffers < 100, `${plans[0]!.buffers} pages`)
})

test('E3 E7: a conversation whose summary PostgreSQL rejects goes on without it', async (t) => {
  for (const [code, failure] of [
    ['22P05', 'agent_protocol'],
    ['P0001', 'internal'],
  ] as const) {
    const talk = await longTalk(t, () => 'They talked.')
    await talk.run(`
      create function fleetline.picky() returns trigger language plpgsql as $$
        begin raise exception 'not this text' using errcode = '${code}'; end $$;
      create trigger picky before insert on fleetline.summaries for each row execute function fleetline.picky()`)
    for (const text of ['one', 'two']) await talk.ask(text)
    await untilState(talk, 'idle')
    assert.deepEqual(await talk.run('select next_try_seq as "from" from fleetline.sessions'), [{ from: 24 }])
    const ended = `select h.outcome, h.error ->> 'code' as code from fleetline.task_history h
                     join fleetline.tracks k on k.id = h.track and k.machine = 'compact'`
    assert.deepEqual(await talk.run(ended), [{ outcome: 'failed', code: failure }])
    await talk.ask('three')
    assert.equal(talk.compactions.length, 1, 'the agent is not asked again')
  }
})

test('E1 E7: only the attempt that has the claim ends a compaction; the leader ends none that a pod has', async (t) => {
  const { set, phase, expire, database, run } = await abandoned(t)
  await set(`${ABANDONED}, state = 'ready'`)
  const [{ id, attempt }] = (await run(`select id, attempt from fleetline.tasks`)) as [
    { id: string; attempt: number },
  ]
  await set(`state = 'claimed', pod = 77, claimed_at = now()`)
  const [{ session, head }] = (await run('select id as session, head from fleetline.sessions')) as [
    { session: string; head: number },
  ]
  const key = { tenant: 1, session, compaction: id }
  const { endCompaction } = appenderOn(database)
  const summary = { outcome: 'done', upto: head, text: 'stale', eraseCount: 0 } as const
  await expire()
  for (const claim of [
    { attempt: attempt - 1, pod: 77 },
    { attempt, pod: 76 },
    { attempt: 0, pod: null },
  ])
    assert.deepEqual(await endCompaction({ ...key, ...claim, ...summary }), { type: 'fenced' })
  const open = (claim: { attempt: number; pod: number }) =>
    database.transaction((query) => openCompaction(query, { tenant: 1, session, id, ...claim }))
  for (const claim of [
    { attempt: attempt - 1, pod: 77 },
    { attempt, pod: 76 },
  ])
    assert.deepEqual(await open(claim), { type: 'committed', value: undefined })
  assert.deepEqual([await phase(), await run('select 1 from fleetline.summaries')], [UNDER_WAY, []])
  assert.deepEqual(await endCompaction({ ...key, attempt, pod: 77, ...summary }), { type: 'ended' })
  assert.deepEqual(await phase(), { isOver: true, from: 0 })
})

test('R3 E5: the reply of a turn that a pod of an older release has started during a compaction is stored', async (t) => {
  const talk = await longTalk(t, () => new Promise(() => undefined))
  for (const text of ['one', 'two']) await talk.ask(text)
  await untilState(talk, 'compacting')
  const [{ compacting }] = (await talk.run('select compacting from fleetline.sessions')) as [
    { compacting: string },
  ]
  await talk.run('update fleetline.sessions set compacting = null') // so does a pod that knows no compaction see it
  const { turn } = await talk.send('three')
  await talk.run(`update fleetline.sessions set compacting = '${compacting}'`)
  assert.equal((await talk.ended(turn!)).state, 'done')
  assert.deepEqual(await talk.run('select turn, compacting from fleetline.sessions'), [
    { turn: null, compacting },
  ])
})

/** An agent behind a URL; `answer` writes the responses at the path of summaries. */
async function farTalk(t: TestContext, answer: Answer) {
  const server = await agentServer(t, (received, response) => {
    if (received.path.startsWith('/summary')) return answer(received, response)
    const said = SAID.map((chunk) => ('delta' in chunk ? { ...chunk, delta: PAGE } : chunk))
    return lines(response, said)
  })
  const url = await databaseFor(t)
  const flags = { secretsKey: Buffer.alloc(32, 7).toString('base64'), agentHosts: '127.0.0.1' }
  const { gateway } = await podOn(t, url, flags, { agents: [] })
  const secret = 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDE='
  const compaction = { enabled: true, ...BUDGET, url: new URL('/summary', server.url).href }
  const added = await call('POST', `${gateway}/v1/agents`, {
    name: 'afar',
    url: server.url,
    secret,
    compaction,
  })
  assert.deepEqual([added.status, added.body['compaction']], [201, { triggerRatio: 0.7, ...compaction }])
  return { ...server, secret, ...(await talkOn(t, { url, gateway, agent: 'afar' })) }
}

const json = (value: object) => (_: unknown, response: Parameters<Answer>[1]) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))

test('E7 S11: an agent behind a URL is asked for a summary by a signed call, at its URL for summaries or at its own', async (t) => {
  let answer: Answer = json({ summary: 'They talked.' })
  const talk = await farTalk(t, (...given) => answer(...given))
  const summaries = () => talk.received.filter(({ path }) => path === '/summary')
  for (const text of ['one', 'two']) await ask(talk, text)
  await untilState(talk, 'idle')
  const [{ headers, body }] = summaries() as [(typeof talk.received)[number]]
  const request = new Request('http://agent/', {
    method: 'POST',
    headers: headers as Record<string, string>,
    body,
  })
  const sent = await verify(request, talk.secret)
  assert.deepEqual(Object.keys(sent).toSorted(), [
    'agent',
    'id',
    'maxTokens',
    'messages',
    'session',
    'through',
    'trigger',
    'turn',
  ])
  assert.ok(sent.trigger === 'compact')
  assert.equal(sent.through, 4)
  assert.equal(headers['x-fleetline-attempt'], '1')

  answer = json({
    role: 'assistant',
    parts: [
      { type: 'text', text: 'They still ' },
      { type: 'text', text: 'talked.' },
    ],
  })
  for (const text of ['three', 'four']) await ask(talk, text)
  await untilState(talk, 'idle')
  const [second] = await talk.run('select text from fleetline.summaries where upto > 4')
  assert.deepEqual(second, { text: 'They still talked.' })

  const at = `${talk.gateway}/v1/agents/afar`
  const changed = await call('PATCH', at, { compaction: { url: null } })
  assert.deepEqual(changed.body['compaction'], { enabled: true, ...BUDGET, triggerRatio: 0.7, url: null })
  for (const text of ['five', 'six']) await ask(talk, text)
  await untilState(talk, 'idle')
  assert.equal(summaries().length, 2)
  const own = talk.received.filter(({ body: bytes }) => bytes.includes('"trigger":"compact"'))
  assert.equal(own.at(-1)!.path, '/api/chat?x=1')
  const [last] = await talk.run('select text from fleetline.summaries order by upto desc limit 1')
  assert.deepEqual(last, second, 'a stream of chunks is no summary')

  await call('PATCH', at, { compaction: { enabled: false } })
  await talk.run('update fleetline.sessions set next_try_seq = 0')
  await ask(talk, 'seven')
  assert.equal((await talk.get()).state, 'idle')
  for (const [compaction, text] of [
    [{ url: 'http://10.0.0.1/' }, /"compaction\.url: .* not public/],
    [{ url: 'ftp://agent.example/' }, /"compaction\.url: must begin with/],
    [{ tokenBudget: 10 }, /compaction.tokenBudget must be a whole number from 1000 to 10000000/],
    [{ triggerRatio: 2 }, /compaction.triggerRatio must be a number from 0.1 to 1/],
  ] as const) {
    const refused = await call('PATCH', at, { compaction })
    assert.equal(refused.status, 400)
    assert.match(JSON.stringify(refused.body), text)
  }
})

test('an answer that is no JSON text is not asked for again', async (t) => {
  const answers = ['{"summary": ', Buffer.from([0x22, 0xff, 0x22]), '{"role": "user", "parts": []}']
  const talk = await farTalk(t, (_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(answers.shift()),
  )
  for (const [n, text] of ['one', 'two', 'three', 'four'].entries()) {
    await ask(talk, text)
    await untilState(talk, 'idle')
    await talk.run('update fleetline.sessions set next_try_seq = 1')
    const asked = talk.received.filter(({ path }) => path === '/summary')
    assert.equal(asked.length, n, `after ${n + 1} messages`)
  }
  const ended = `select distinct h.error ->> 'code' as code, h.spent from fleetline.task_history h
                   join fleetline.tracks k on k.id = h.track and k.machine = 'compact'`
  assert.deepEqual(await talk.run(ended), [{ code: 'agent_protocol', spent: 1 }])
})
