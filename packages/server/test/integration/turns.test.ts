// Turns on a pod: from a message over HTTP to the reply in the log, and every other way in which a turn can end.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Item } from '@fleetline/protocol'
import { agent, type AgentCall, type AgentDefinition } from '../../src/agent/agent.ts'
import { abort, retryAfter } from '../../src/machine/outcomes.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { saying, talkOn } from '../support/talk.ts'

async function* only(...chunks: { readonly type: string }[]) {
  yield* chunks
}

/** A session on a pod whose agent `bot` replies with `answer`. */
async function botOn(t: TestContext, answer: AgentDefinition['answer'], lines: string[] = []) {
  const url = await databaseFor(t)
  const parts = { agents: [agent('bot', answer)], lines }
  const { gateway } = await podOn(t, url, { podName: 'alpha' }, parts)
  return talkOn(t, { url, gateway, agent: 'bot' })
}

const UNREPORTED = {
  attempt: 1,
  model: '',
  outcome: 'done',
  inputTokens: null,
  outputTokens: null,
  cacheReadTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
}

test('an agent is called with the conversation, and its reply is stored once', async (t) => {
  const calls: AgentCall[] = []
  const bot = await botOn(t, (one) => {
    calls.push(one)
    return saying('hello ada')
  })
  await bot.send('a note', { reply: false })
  const ack = await bot.send('hi', { author: 'ada' })
  assert.equal(ack.seq, 2)
  assert.equal(ack.epoch, 1)
  const { startedAt, endedAt, ...done } = await bot.ended(ack.turn!)
  assert.ok(startedAt <= endedAt!, `from ${startedAt} to ${endedAt}`)
  assert.deepEqual(done, {
    id: ack.turn,
    session: bot.session,
    state: 'done',
    epoch: 1,
    attempt: 1,
    agent: 'bot',
    message: ack.turn!.replace('turn_', 'msg_'),
    answers: { from: 1, to: 2 },
    pod: null,
    retryAt: null,
    waitsFor: null,
    usage: [UNREPORTED],
    error: null,
  })
  const { at, ...reply } = (await bot.items())[2]!
  assert.ok(at)
  assert.deepEqual(reply, {
    seq: 3,
    id: done.message,
    role: 'assistant',
    parts: [{ type: 'text', text: 'hello ada', state: 'done' }],
    author: { kind: 'agent', id: 'bot' },
    turn: ack.turn,
    answers: 2,
  })
  const [{ signal, deadlineMs, messages, ...context }] = calls as [AgentCall]
  assert.ok(signal.aborted, 'the call is not closed')
  assert.ok(deadlineMs > 0 && deadlineMs <= 900_000, `${deadlineMs} ms`)
  assert.deepEqual(
    messages.map(({ role, parts }) => [role, parts[0]!['text']]),
    [
      ['user', 'a note'],
      ['user', 'hi'],
    ],
  )
  assert.deepEqual(context, {
    id: bot.session,
    trigger: 'submit-message',
    turn: {
      id: ack.turn,
      epoch: 1,
      attempt: 1,
      messageId: done.message,
      answers: { from: 1, to: 2 },
      resume: 'restart',
    },
    session: { id: bot.session, title: 'A talk', metadata: null },
    user: { id: 'ada' },
    agent: { id: 'bot' },
  })
  const { state, epoch, turn, agent: name } = await bot.get()
  assert.deepEqual({ state, epoch, turn, name }, { state: 'idle', epoch: 1, turn: null, name: 'bot' })
})

test('the next turn answers, in order, the messages that were sent while a turn ran', async (t) => {
  const [called, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const read: string[][] = []
  const bot = await botOn(t, async ({ messages }) => {
    read.push(messages.map(({ parts }) => parts[0]!['text'] as string))
    called.resolve()
    await free.promise
    return saying(`reply ${read.length}`)
  })
  const first = await bot.send('one')
  await called.promise
  const running = await bot.turn(first.turn!)
  assert.equal(running.state, 'running')
  assert.equal(running.pod, 'alpha')
  assert.equal(running.attempt, 1)
  for (const text of ['two', 'three', 'four']) assert.equal((await bot.send(text)).turn, first.turn)
  assert.equal((await bot.get()).state, 'working')
  free.resolve()
  await eventually(async () => assert.equal((await bot.get()).state, 'idle'), { what: 'an idle session' })
  const shown = ({ seq, parts, answers }: Item) => ({ seq, text: parts[0]!['text'], answers })
  assert.deepEqual((await bot.items()).map(shown).slice(4), [
    { seq: 5, text: 'reply 1', answers: 1 },
    { seq: 6, text: 'reply 2', answers: 5 },
  ])
  assert.deepEqual(read, [['one'], ['one', 'reply 1', 'two', 'three', 'four']])
  assert.equal((await bot.get()).epoch, 2)
})

test('a turn that has used up its attempts fails with a reason, and the next message is answered', async (t) => {
  let isBroken = true
  const attempts: number[] = []
  const bot = await botOn(t, ({ turn }) => {
    attempts.push(turn.attempt)
    if (isBroken) throw new Error('No model answers; ada asked for the moon')
    return saying('here again')
  })
  const { turn: failing } = await bot.send('the moon, please')
  const failed = await bot.ended(failing!)
  assert.equal(failed.state, 'failed')
  assert.equal(failed.attempt, 4)
  assert.deepEqual(attempts, [1, 2, 3, 4])
  assert.deepEqual(failed.error, { code: 'failed', message: 'No model answers; ada asked for the moon' })
  assert.equal((await bot.get()).state, 'idle')
  assert.equal((await bot.items()).length, 1)
  const rows = JSON.stringify(await bot.run('select * from fleetline.task_history'))
  assert.match(rows, /An attempt of a turn failed/)
  assert.doesNotMatch(rows, /moon/, 'the history of tasks holds no conversation')
  isBroken = false
  const next = await bot.send('hello?')
  assert.equal((await bot.ended(next.turn!)).state, 'done')
  assert.equal((await bot.items()).at(-1)!.answers, 2)
})

test('an agent can abort its turn, ask for a later attempt, or say nothing; if it breaks the protocol its turn fails', async (t) => {
  let asked = 0
  const bot = await botOn(t, ({ messages }) => {
    const said = messages.at(-1)!.parts[0]!['text']
    if (said === 'never') abort('not with me')
    if (said === 'later' && (asked += 1) < 6) retryAfter('10m')
    if (said === 'too late') retryAfter('1h')
    if (said === 'nonsense') return only({ type: 'nonsense' })
    return said === 'nothing' ? only({ type: 'start' }, { type: 'finish' }) : saying('done')
  })
  const end = async (text: string) => bot.ended((await bot.send(text)).turn!)
  const never = await end('never')
  assert.equal(never.state, 'failed')
  assert.deepEqual(never.error, { code: 'aborted', message: 'not with me' })
  const later = await end('later')
  assert.equal(later.state, 'done')
  assert.equal(later.attempt, 6) // the five attempts that the agent put off do not count
  assert.equal(asked, 6)
  const tooLate = await end('too late')
  assert.equal(tooLate.state, 'failed')
  assert.equal(tooLate.error!.code, 'deadline')
  assert.equal(tooLate.attempt, 1)
  const nothing = await end('nothing')
  assert.equal(nothing.state, 'done')
  assert.equal((await bot.items()).at(-1)!.role, 'user')
  const nonsense = await end('nonsense')
  assert.equal(nonsense.state, 'failed')
  assert.equal(nonsense.error!.code, 'agent_protocol')
  assert.equal(nonsense.attempt, 1)
  assert.deepEqual(
    (await bot.items()).map(({ role }) => role),
    ['user', 'user', 'assistant', 'user', 'user', 'user'],
  )
})

test('the check fails a turn whose pods died four times; a turn whose agent no pod has fails at its deadline', async (t) => {
  const bot = await botOn(t, () => saying('x'))
  const statement = `
    create function fleetline.worn() returns trigger language plpgsql as $$ begin new.spent := 4; return new; end $$;
    create trigger worn before insert on fleetline.tasks for each row execute function fleetline.worn()`
  await bot.run(statement)
  const worn = await bot.ended((await bot.send('a')).turn!)
  assert.equal(worn.state, 'failed')
  assert.equal(worn.error!.code, 'attempts_used_up')
  assert.equal((await bot.get()).state, 'idle')
  await bot.run('drop trigger worn on fleetline.tasks')
  await bot.run(`update fleetline.sessions set agent = 'gone'`)
  const { turn } = await bot.send('b')
  await eventually(async () => assert.equal((await bot.turn(turn!)).waitsFor, 'agent_unknown'), {
    what: 'the turn to say why it waits',
  })
  await bot.run(
    `update fleetline.turns set started_at = now() - interval '898 seconds' where ended_at is null`,
  )
  const gone = await bot.ended(turn!)
  assert.equal(gone.state, 'failed')
  assert.equal(gone.error!.code, 'agent_unknown')
})

test('what the code of an agent throws is in the log, with its stack and the name of the agent', async (t) => {
  const lines: string[] = []
  const bot = await botOn(
    t,
    ({ turn: { attempt } }) => {
      if (attempt === 1) throw new Error('No model today')
      return saying('hello')
    },
    lines,
  )
  const { turn } = await bot.send('hi')
  await bot.ended(turn!)
  const said = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  const { level, stack, data } = said.find(({ msg }) => msg === 'an agent failed')!
  assert.equal(level, 'warn')
  assert.match(String(stack), /^Error: No model today\n {4}at .*turns\.test\.ts/)
  assert.deepEqual(data, { agent: 'bot' })
})

test('an agent that aborts is in the log, too', async (t) => {
  const lines: string[] = []
  const bot = await botOn(t, () => abort('No model for this'), lines)
  const { turn } = await bot.send('hi')
  assert.equal((await bot.ended(turn!)).error!.code, 'aborted')
  const failed = lines.find((line) => line.includes('an agent failed'))!
  assert.match((JSON.parse(failed) as { stack: string }).stack, /No model for this/)
})

test('a session cannot name an unknown agent, and a session without an agent has no turns', async (t) => {
  const bot = await botOn(t, () => saying('x'))
  const { status, body } = await call('POST', `${bot.gateway}/v1/sessions`, { agent: 'nobody' })
  assert.equal(status, 400)
  assert.match(JSON.stringify(body), /there is no agent nobody/)
  const plain = await makeSession(bot.gateway)
  assert.equal(plain.agent, null)
  assert.equal(plain.state, 'idle')
  assert.equal(plain.epoch, 0)
  assert.equal(plain.turn, null)
  const sent = await call('POST', `${bot.gateway}/v1/sessions/${plain.session}/messages`, { text: 'hi' })
  assert.deepEqual(Object.keys(sent.body), ['id', 'seq', 'deduped'])
})
