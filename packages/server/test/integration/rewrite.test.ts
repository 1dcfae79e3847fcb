// Replies that are written anew and messages that are edited, over HTTP. The agent answers each call with its number.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Ack, RegenerateAck } from '@fleetline/protocol'
import { agent, type AgentCall } from '../../src/agent/agent.ts'
import { FIND_REWRITES } from '../../src/session/find-rewrites.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { textDraft } from '../support/history.ts'
import { call } from '../support/http.ts'
import { explaining } from '../support/plan.ts'
import { podOn } from '../support/pod.ts'
import { readEvents } from '../support/reader.ts'
import { saying, talkOn } from '../support/talk.ts'
import { conversationOn } from '../support/turns.ts'

const textsOf = ({ messages }: Pick<AgentCall, 'messages'>) => messages.map(({ parts }) => parts[0]!['text'])
const said = (text: string) => [{ type: 'text', text }]

/** The first call whose last message is `wait` says its number and then waits for `go`. */
async function numberedTalk(t: TestContext) {
  const calls: AgentCall[] = []
  const { promise: go, resolve } = Promise.withResolvers<void>()
  const answer = async function* (asked: AgentCall) {
    const number = calls.push(asked)
    if (textsOf(asked).at(-1) !== 'wait' || number > 2) return yield* saying(`reply ${number}`)
    yield { type: 'start' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: `reply ${number}` }
    await go
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish' }
  }
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, { drainMs: '0' }, { agents: [agent('counter', answer)] })
  const talk = await talkOn(t, { url, gateway, agent: 'counter' })
  const at = `${gateway}/v1/sessions/${talk.session}`
  const regenerate = (epoch: number, message?: string) => call('POST', `${at}/regenerate`, { epoch, message })
  const edit = (epoch: number, message: string, text: string, more = {}) =>
    call('PUT', `${at}/messages/${message}`, { epoch, parts: said(text), ...more })
  return {
    ...talk,
    at,
    calls,
    go: resolve,
    regenerate,
    edit,
    ask: async (text: string) => talk.ended((await talk.send(text)).turn!),
    done: async ({ status, body }: Awaited<ReturnType<typeof regenerate>>) => {
      assert.equal(status, 200, JSON.stringify(body))
      const { turn } = body as unknown as RegenerateAck
      assert.equal((await talk.ended(turn)).state, 'done')
    },
    /** What is in the log, and what each message stands in place of. */
    log: async () =>
      (await talk.items()).map(({ parts, replaces }) => [parts[0]!['text'], ...(replaces ?? []).flat()]),
  }
}

test('E10: a reply that is written anew takes the place of the old one; a repeat gets the same turn; the log keeps both', async (t) => {
  const talk = await numberedTalk(t)
  const reader = await readEvents(t, `${talk.at}/events`)
  await talk.ask('one')
  await talk.ask('two')
  const first = await talk.regenerate(2)
  await talk.done(first)
  assert.deepEqual(await talk.regenerate(2), { status: 200, body: { ...first.body, deduped: true } })
  assert.deepEqual(textsOf(talk.calls[2]!), ['one', 'reply 1', 'two'])
  const { trigger, messageId } = talk.calls[2]!
  assert.deepEqual([trigger, messageId], ['regenerate-message', (await talk.items())[3]!.id])
  const turns = reader.frames.flatMap((frame) => (frame.type === 'turn' ? [frame.turn] : []))
  assert.deepEqual(
    turns.find(({ epoch }) => epoch === 3)!.replaces,
    [[4, 4]],
    'readers know it before the reply',
  )
  await talk.ask('three')
  assert.deepEqual(textsOf(talk.calls[3]!), ['one', 'reply 1', 'two', 'reply 3', 'three'])
  assert.deepEqual(talk.calls[3]!.trigger, 'submit-message')
  await talk.done(await talk.regenerate(4, (await talk.items())[1]!.id))
  assert.deepEqual(textsOf(talk.calls[4]!), ['one'])
  assert.deepEqual(await talk.log(), [
    ['one'],
    ['reply 1'],
    ['two'],
    ['reply 2'],
    ['reply 3', 4, 4],
    ['three'],
    ['reply 4'],
    ['reply 5', 2, 7],
  ])
  await talk.done(await talk.regenerate(5))
  await talk.ask('four')
  assert.deepEqual(textsOf(talk.calls.at(-1)!), ['one', 'reply 6', 'four'])
})

test('E10: an edit takes the place of a message and of all behind it; of two edits at the same epoch, one is refused', async (t) => {
  const talk = await numberedTalk(t)
  await talk.send('one', { message: { id: 'u1', parts: said('one') }, text: undefined })
  await talk.ended((await talk.get()).turn ?? (await talk.items())[1]!.turn!)
  await talk.ask('two')
  const both = await Promise.all([talk.edit(2, 'u1', 'uno'), talk.edit(2, 'u1', 'eins')])
  const won = both.findIndex(({ status }) => status === 200)
  const [winner, loser] = won === 0 ? both : both.toReversed()
  assert.equal(loser!.status, 409)
  const { code, current } = loser!.body['error'] as { code: string; current: Record<string, unknown> }
  assert.deepEqual([code, current['head'], current['epoch']], ['stale', 5, 3])
  await talk.done(winner!)
  const text = won === 0 ? 'uno' : 'eins'
  assert.deepEqual(textsOf(talk.calls[2]!), [text])
  const { id, seq, turn } = winner!.body as Ack
  assert.deepEqual((await talk.edit(2, 'u1', text)).body, { id, seq, deduped: true, turn, epoch: 3 })
  assert.deepEqual((await talk.log())[4], [text, 1, 4])
  const again = await talk.edit(3, 'u1', 'once more')
  assert.equal((again.body['error'] as { code: string }).code, 'stale', 'it has left the conversation')
  const twice = await Promise.all([1, 2, 3].map(() => talk.edit(3, id, 'last', { id: 'u9' })))
  await talk.done(twice[0]!)
  const acks = twice.map(({ status, body }) => ({ status, ...body, deduped: false }))
  assert.deepEqual(acks, [acks[0], acks[0], acks[0]], 'the same edit at the same moment')
  assert.deepEqual((await talk.edit(3, id, 'other', { id: 'u9' })).status, 409)
  await talk.ask('end')
  assert.deepEqual(textsOf(talk.calls.at(-1)!), ['last', 'reply 4', 'end'])
})

test('E10: a live reply is dropped when it is written anew; a message that comes meanwhile is answered, and stays', async (t) => {
  const talk = await numberedTalk(t)
  const { turn } = await talk.send('wait')
  await eventually(() => assert.equal(talk.calls.length, 1), { what: 'the first call' })
  const { body } = await talk.regenerate(1)
  assert.equal(body['epoch'], 3)
  assert.equal((await talk.turn(turn!)).state, 'stopped')
  await eventually(() => assert.equal(talk.calls.length, 2), { what: 'the second call' })
  assert.equal((await talk.send('meanwhile')).turn, body['turn'])
  talk.go()
  await eventually(async () => assert.equal((await talk.items()).length, 4), { what: 'both replies' })
  assert.deepEqual(await talk.log(), [['wait'], ['meanwhile'], ['reply 2'], ['reply 3']])
  const ids = (await talk.items()).map(({ id }) => id)
  await talk.done(await talk.regenerate(4, ids[0]))
  assert.deepEqual((await talk.log()).at(-1), ['reply 4', 2, 4])
  await talk.done(await talk.edit(5, ids[0]!, 'new'))
  await talk.ask('end')
  assert.deepEqual(textsOf(talk.calls.at(-1)!), ['new', 'reply 5', 'end'])
})

test('E10: an edit keeps the reply that was under way to the message before it', async (t) => {
  const talk = await numberedTalk(t)
  await talk.send('wait')
  await eventually(() => assert.equal(talk.calls.length, 1), { what: 'the first call' })
  await talk.send('second')
  talk.go()
  await eventually(async () => assert.equal((await talk.items()).length, 4), { what: 'both replies' })
  const [, { id }] = (await talk.items()) as [unknown, { id: string }]
  await talk.done(await talk.edit(2, id, 'changed'))
  assert.deepEqual(textsOf(talk.calls.at(-1)!), ['wait', 'reply 1', 'changed'])
  assert.deepEqual((await talk.log())[4], ['changed', 2, 2, 4, 4])
})

test('a rewrite is refused by name, also in a session without an agent', async (t) => {
  const talk = await numberedTalk(t)
  await talk.send('note', { reply: false })
  const system = { message: { id: 's', role: 'system', parts: said('rules') }, text: undefined }
  await talk.send('', system)
  const refusal = async (answer: ReturnType<typeof talk.edit>) => {
    const { status, body } = await answer
    const { code, text } = body['error'] as { code: string; text: string }
    return [status, code, text.split(/[ :,]/).slice(0, 4).join(' ')]
  }
  assert.deepEqual(await refusal(talk.regenerate(0, 's')), [400, 'invalid', 'Only a message of'])
  assert.deepEqual(await refusal(talk.edit(0, 's', 'x')), [400, 'invalid', 'Only a message of'])
  assert.deepEqual(await refusal(talk.edit(0, 'nobody', 'x')), [404, 'not_found', 'There is no such'])
  assert.deepEqual(await refusal(talk.edit(7, 's', 'x')), [409, 'stale', 'The conversation has changed'])
  assert.equal((await refusal(talk.edit(0, 's', ' ')))[1], 'invalid')
  const plain = await call('POST', `${talk.gateway}/v1/sessions`, { alias: 'plain' })
  assert.equal(plain.status, 201)
  const at = `${talk.gateway}/v1/sessions/plain`
  await call('POST', `${at}/messages`, { message: { id: 'a', parts: said('a') } })
  for (const asked of [
    call('POST', `${at}/regenerate`, { epoch: 0 }),
    call('PUT', `${at}/messages/a`, { epoch: 0, parts: said('b') }),
  ])
    assert.deepEqual(await refusal(asked), [400, 'invalid', 'This session has no'])
})

test('E10: a rewrite that names the head is refused if anything was added; a note can be answered; an id is never taken twice', async (t) => {
  const talk = await numberedTalk(t)
  await talk.ask('one')
  await talk.send('aside', { reply: false })
  const { status, body } = await call('POST', `${talk.at}/regenerate`, { epoch: 1, ifHead: 2 })
  assert.deepEqual([status, (body['error'] as { code: string }).code], [409, 'stale'])
  const [one, , aside] = await talk.items()
  const taken = await talk.edit(1, one!.id, 'aside', { id: aside!.id })
  assert.deepEqual([taken.status, (taken.body['error'] as { code: string }).code], [409, 'conflict'])
  await talk.done(await call('POST', `${talk.at}/regenerate`, { epoch: 1, ifHead: 3 }))
  assert.deepEqual(
    (await talk.log()).at(-1),
    ['reply 2', 2, 3],
    'without a target, the last reply is written anew',
  )
  await talk.send('again', { reply: false })
  await talk.done(await talk.regenerate(2, (await talk.items()).at(-1)!.id))
  assert.deepEqual(textsOf(talk.calls[2]!), ['one', 'reply 2', 'again'])
})

test('S35: after an edited message was erased, nothing that stays is made of what it said', async (t) => {
  const talk = await numberedTalk(t)
  await talk.ask('one')
  const { id } = (await talk.items())[0]!
  const first = await talk.edit(1, id, 'secret')
  await talk.done(first)
  const other = await talk.edit(1, id, 'guess')
  assert.equal((other.body['error'] as { code: string }).code, 'stale', 'the id does not depend on the words')
  await call('DELETE', `${talk.at}/messages/${String(first.body['id'])}`)
  await eventually(async () => assert.equal((await talk.edit(1, id, 'secret')).status, 410), {
    what: 'a repeat to find it erased',
  })
})

test('what a rewrite looks up comes from the indexes, however long the conversation is', async (t) => {
  const { run, key, append } = await conversationOn(t)
  await append({ ...key, draft: textDraft('a') })
  await run((query) =>
    query(
      `insert into fleetline.messages (at, tenant, session, seq, key, digest, id, role, author_kind, format, body)
       select now(), $1, $2, n, gen_random_uuid(), 0, n::text, n % 2, 0, 1, '{"parts": []}' from generate_series(2, 20000) n`,
      [key.tenant, key.session],
    ),
  )
  await run((query) => query('analyze fleetline.messages'))
  const values = [[key.tenant], [key.session], [null], [0], ['00'], [null]]
  const [plan] = await run(async (query) => {
    const explained = explaining(query)
    await explained.query(FIND_REWRITES, values)
    return explained.plans
  })
  assert.ok(plan!.buffers <= 60, `${plan!.buffers} buffers: ${plan!.text}`)
})
