// Conversations that have become long: when they are summarised, what the agent is sent then, and what happens if it cannot summarise.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Session } from '@fleetline/protocol'
import { verify } from '../../src/agent-kit.ts'
import { agent, type AgentCall, type CompactCall } from '../../src/agent/agent.ts'
import { sessionDuties } from '../../src/session/duties.ts'
import { agentServer, lines, SAID, type Answer } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { appenderOn } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { saying, talkOn } from '../support/talk.ts'

/** 700 tokens are long enough. */
const BUDGET = { tokenBudget: 1_000 }
/** As an answer, it makes a conversation longer by about 500 tokens. */
const PAGE = 'x'.repeat(2_000)
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
  const { gateway, admin } = await podOn(t, url, { drainMs: '0' }, { agents: [inCode] })
  const talk = await talkOn(t, { url, gateway, agent: 'writer' })
  return { ...talk, url, admin, calls, compactions, ask: (text: string) => ask(talk, text) }
}

async function ask(talk: Talk, text: string): Promise<void> {
  const { state } = await talk.ended((await talk.send(text)).turn!)
  assert.equal(state, 'done')
}

/** What the leader does every ten seconds. */
async function lookForOverdue(t: TestContext, url: string): Promise<void> {
  const database = await openDatabase(t, url)
  const { expireTurn, endCompaction } = appenderOn(database)
  const [look] = sessionDuties({ database, expireTurn, endCompaction, cell: 0, onReady: () => undefined })
  await look!.run({ term: 0, pod: 0 }, () => true)
}

const untilState = (talk: Pick<Talk, 'get' | 'run'>, wanted: Session['state']) =>
  eventually(
    async () => {
      await talk.run(`update fleetline.tasks set run_at = now() where state = 'waiting'`)
      assert.equal((await talk.get()).state, wanted)
    },
    { what: `the session to be ${wanted}` },
  )

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
  const stop = { turn: 'turn_000000000000000000000000000', epoch: 2 }
  const at = `${talk.gateway}/v1/sessions/${talk.session}`
  assert.notEqual((await call('POST', `${at}/stop`, stop)).body['stopped'], true)
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
  assert.deepEqual(await talk.run('select upto, text from fleetline.summaries'), [
    { upto: 4, text: 'They talked.' },
  ])
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
  assert.deepEqual(await talk.run('select upto, text from fleetline.summaries order by upto'), [
    { upto: 4, text: 'of 4' },
    { upto: 8, text: 'of 5' },
  ])
})

test('a summary that fails is tried four times; then the conversation goes on, and is tried again when it is a tenth of the budget longer', async (t) => {
  const answers = ['', 'x'.repeat(300_000), 'half \ud800 of a character', 'fits']
  const talk = await longTalk(t, () => answers.shift() ?? Promise.reject(new Error('not now')))
  for (const text of ['one', 'two']) await talk.ask(text)
  await untilState(talk, 'idle')
  assert.equal(talk.compactions.length, 1, 'a summary that cannot be stored fails at once')
  const [row] = await talk.run(
    'select compact_from between 1100 and 1400 as "isLater" from fleetline.sessions',
  )
  assert.deepEqual(row, { isLater: true })
  await talk.run('update fleetline.sessions set compact_from = 100000')
  await talk.ask('three')
  assert.equal(talk.compactions.length, 1)
  await talk.run('update fleetline.sessions set compact_from = 1')
  for (const text of ['four', 'five', 'six']) {
    await talk.ask(text)
    await untilState(talk, 'idle')
    await talk.run('update fleetline.sessions set compact_from = 1')
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
})

test('a compaction that no pod has taken for three minutes ends, and the message that waits is answered', async (t) => {
  const { promise: never } = Promise.withResolvers<string>()
  const talk = await longTalk(t, () => never)
  for (const text of ['one', 'two']) await talk.ask(text)
  await untilState(talk, 'compacting')
  await talk.send('three')
  // as if its pod had died and no other had slots
  await talk.run(`update fleetline.tasks set pod = null, state = 'ready', attempt = attempt + 1, run_at = now() + interval '1 hour',
                         created_at = now() - interval '4 minutes'
                   where track in (select id from fleetline.tracks where machine = 'compact')`)
  await lookForOverdue(t, talk.url)
  await eventually(async () => assert.equal((await talk.items()).length, 6), { what: 'the answer' })
  assert.equal(textsOf(talk.calls.at(-1)!).length, 5)
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
  assert.equal(
    (await talk.run('select 1 from fleetline.summaries')).length,
    2,
    'a stream of chunks is no summary',
  )

  await call('PATCH', at, { compaction: { enabled: false } })
  await talk.run('update fleetline.sessions set compact_from = 0')
  await ask(talk, 'seven')
  assert.equal((await talk.get()).state, 'idle')
  for (const [compaction, text] of [
    [{ url: 'http://10.0.0.1/' }, /not public/],
    [{ tokenBudget: 10 }, /compaction.tokenBudget must be a whole number from 1000 to 10000000/],
    [{ triggerRatio: 2 }, /compaction.triggerRatio must be a number from 0.1 to 1/],
  ] as const) {
    const refused = await call('PATCH', at, { compaction })
    assert.equal(refused.status, 400)
    assert.match(JSON.stringify(refused.body), text)
  }
})
