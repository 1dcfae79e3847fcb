// Agents that answer with AG-UI events, and sessions that are followed as AG-UI events.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test, type TestContext } from 'node:test'
import { RunAgentInputSchema } from '@ag-ui/core/schemas'
import { verify } from '../../src/agent-kit.ts'
import { agent } from '../../src/agent/agent.ts'
import { fromAgUi, type AgUiInput } from '../../src/agent/ag-ui-call.ts'
import { messagesForReader, type AgUiMessage } from '../../src/ag-ui/messages.ts'
import { faultsOf, followAgUi, readByAgUi } from '../support/ag-ui.ts'
import { agentServer, type Answer } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { saying, talkOn } from '../support/talk.ts'

const KEY = { secretsKey: Buffer.alloc(32, 7).toString('base64'), agentHosts: '127.0.0.1' }
const SECRET = 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDE='

function events(response: ServerResponse, ...sent: readonly object[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(sent.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''))
}

function run(
  { threadId, runId }: Pick<AgUiInput, 'threadId' | 'runId'>,
  ...said: readonly object[]
): object[] {
  return [{ type: 'RUN_STARTED', threadId, runId }, ...said, { type: 'RUN_FINISHED', threadId, runId }]
}

const words = (messageId: string, delta: string) => [
  { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' },
  { type: 'TEXT_MESSAGE_CONTENT', messageId, delta },
  { type: 'TEXT_MESSAGE_END', messageId },
]

const toolStep = [
  { type: 'REASONING_MESSAGE_START', messageId: 'r', role: 'reasoning' },
  { type: 'REASONING_MESSAGE_CONTENT', messageId: 'r', delta: 'Weather? A tool knows.' },
  { type: 'REASONING_MESSAGE_END', messageId: 'r' },
  { type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', entityId: 'r', encryptedValue: 'sealed' },
  { type: 'TOOL_CALL_START', toolCallId: 'c1', toolCallName: 'weather' },
  { type: 'TOOL_CALL_ARGS', toolCallId: 'c1', delta: '{"city":"Bern"}' },
  { type: 'TOOL_CALL_END', toolCallId: 'c1' },
  { type: 'TOOL_CALL_RESULT', messageId: 't', toolCallId: 'c1', content: '21 degrees' },
  { type: 'STATE_SNAPSHOT', snapshot: { asked: ['Bern'] } },
  { type: 'STATE_DELTA', delta: [{ op: 'add', path: '/asked/-', value: 'Rome' }] },
]

type Answers = ((input: AgUiInput, response: ServerResponse) => unknown)[]

async function talkWith(t: TestContext, answers: Answers, more: object = {}) {
  const answer: Answer = ({ body }, response) =>
    answers.shift()!(JSON.parse(body.toString()) as AgUiInput, response)
  const server = await agentServer(t, answer)
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, KEY, { agents: [] })
  const added = await call('POST', `${gateway}/v1/agents`, {
    name: 'afar',
    url: server.url,
    secret: SECRET,
    protocol: 'ag-ui',
    ...more,
  })
  assert.deepEqual([added.status, added.body['protocol']], [201, 'ag-ui'])
  return { ...server, ...(await talkOn(t, { url, gateway, agent: 'afar' })) }
}

test('an agent that answers with AG-UI events is an agent: what it says is stored, and its next call has all of it', async (t) => {
  const talk = await talkWith(t, [
    (input, response) => events(response, ...run(input, ...toolStep, ...words('m', 'It is 21 degrees.'))),
    (input, response) => events(response, ...run(input, ...words('m', 'As I said.'))),
  ])
  const first = await talk.send('How warm is it?')
  assert.equal((await talk.ended(first.turn!)).state, 'done')
  const [, reply] = await talk.items()
  assert.deepEqual(
    reply!.parts.map(({ type, text, input, output, data }) =>
      [type, text ?? output ?? data, input].filter(Boolean),
    ),
    [
      ['step-start'],
      ['reasoning', 'Weather? A tool knows.'],
      ['dynamic-tool', '21 degrees', { city: 'Bern' }],
      ['data-ag-ui-state', { asked: ['Bern', 'Rome'] }],
      ['step-start'],
      ['text', 'It is 21 degrees.'],
    ],
  )
  const second = await talk.send('Sure?')
  assert.equal((await talk.ended(second.turn!)).state, 'done')
  const [before, after] = talk.received.map(({ body }) => JSON.parse(body.toString()) as AgUiInput)
  for (const input of [before, after]) assert.ok(RunAgentInputSchema.safeParse(input).success)
  assert.deepEqual([before!.state, after!.state], [{}, { asked: ['Bern', 'Rome'] }])
  assert.equal(before!.threadId, talk.session)
  assert.deepEqual(
    after!.messages.map(({ role, content, encryptedValue, toolCallId }) =>
      [role, content, encryptedValue ?? toolCallId].filter(Boolean),
    ),
    [
      ['user', 'How warm is it?'],
      ['reasoning', 'Weather? A tool knows.', 'sealed'],
      ['assistant'],
      ['tool', '21 degrees', 'c1'],
      ['assistant', 'It is 21 degrees.'],
      ['user', 'Sure?'],
    ],
  )
  const { headers, body } = talk.received[0]!
  assert.equal(headers.accept, 'text/event-stream')
  await verify(
    new Request('http://a/', {
      method: 'POST',
      headers: headers as Record<string, string>,
      body: new Uint8Array(body),
    }),
    SECRET,
  )
})

test('an AG-UI agent that fails is called again, or refused by the name of its fault', async (t) => {
  const failing: Answers[number] = (_, response) =>
    events(response, { type: 'RUN_ERROR', message: 'full', code: 'busy' })
  const asking: Answers[number] = (input, response) => {
    const [started, ended] = run(input)
    events(response, started!, {
      ...ended,
      outcome: { type: 'interrupt', interrupts: [{ id: 'i', reason: 'approval' }] },
    })
  }
  const silent: Answers[number] = (_, response) => response.writeHead(204).end()
  const open: Answers[number] = (input, response) => events(response, ...run(input, words('m', 'half')[0]!))
  const talk = await talkWith(t, [
    failing,
    (input, response) => events(response, ...run(input, ...words('m', 'Here I am.'))),
    asking,
    silent,
    open,
  ])
  const endOf = async () => talk.ended((await talk.send('hi')).turn!)
  assert.equal((await endOf()).state, 'done')
  const [first, second] = talk.received.map(({ body }) => (JSON.parse(body.toString()) as AgUiInput).runId)
  assert.notEqual(first, second, 'each attempt is a run of its own')
  for (const fault of [/cannot answer interrupts yet/, /status 204/, /m is still open/]) {
    const { state, error } = await endOf()
    assert.deepEqual([state, error?.code], ['failed', 'agent_protocol'])
    assert.match(error!.message, fault)
  }
})

test('an AG-UI agent is asked for summaries only at another URL', async (t) => {
  const talk = await talkWith(t, [])
  const at = `${talk.gateway}/v1/agents/afar`
  const refused = await call('PATCH', at, { compaction: { enabled: true } })
  assert.equal(refused.status, 400)
  assert.match((refused.body['error'] as { text: string }).text, /compaction\.url/)
  const changed = await call('PATCH', at, { compaction: { enabled: true, url: 'http://127.0.0.1:1/' } })
  assert.equal(changed.status, 200)
})

test('D1 D4: a session is followed as AG-UI events, cut in the middle of a reply, and resumed with the id of the last event', async (t) => {
  const gate = Promise.withResolvers<void>()
  const answers = [() => halves(gate.promise), () => saying('Short.')]
  const url = await databaseFor(t)
  const teller = agent('teller', () => answers.shift()!())
  const { gateway } = await podOn(t, url, {}, { agents: [teller] })
  const talk = await talkOn(t, { url, gateway, agent: 'teller' })
  await talk.send('a note', { reply: false })
  const at = `${gateway}/v1/sessions/${talk.session}/ag-ui`

  const first = await followAgUi(t, at)
  await eventually(() => assert.ok(first.types().includes('MESSAGES_SNAPSHOT')), { what: 'the snapshot' })
  const { turn } = await talk.send('Tell me.')
  await eventually(() => assert.match(first.text(), /The first half, $/), { what: 'the first half' })
  await first.cut()

  const { messages } = await readByAgUi(first.events)
  const second = await followAgUi(t, at, { 'last-event-id': first.lastId()! })
  gate.resolve()
  await talk.ended(turn!)
  await eventually(() => assert.equal(second.types().at(-1), 'RUN_FINISHED'), { what: 'the end of the run' })
  await second.cut()
  assert.deepEqual([...first.events, ...second.events].flatMap(faultsOf), [])
  const read = await readByAgUi(second.events, { messages })
  assert.equal(read.error, undefined)
  const wanted = (await talk.items()).flatMap(messagesForReader)
  assert.deepEqual(contents(read.messages), contents(wanted))

  const third = await followAgUi(t, at, { 'last-event-id': second.lastId()! })
  const { turn: next } = await talk.send('And now?')
  await talk.ended(next!)
  await eventually(() => assert.match(third.text(), /Short\.$/), { what: 'the next reply' })
  assert.ok(!third.types().includes('MESSAGES_SNAPSHOT'), 'a reader with whole messages gets only new ones')
})

test('readers that leave at once give back their places', async (t) => {
  const url = await databaseFor(t)
  const { gateway } = await podOn(
    t,
    url,
    { maxFollowers: '3' },
    { agents: [agent('quiet', () => saying('Yes.'))] },
  )
  const talk = await talkOn(t, { url, gateway, agent: 'quiet' })
  const at = `${gateway}/v1/sessions/${talk.session}/ag-ui`
  for (let n = 0; n < 8; n += 1) {
    const leaving = new AbortController()
    const answer = fetch(at, { signal: leaving.signal })
    if (n % 2 === 0) await answer
    leaving.abort()
    await answer.catch(() => undefined)
  }
  await eventually(async () => assert.ok((await followAgUi(t, at)).events), { what: 'a place' })
})

test('a reply that is written anew, and an erased message, leave the messages of a reader', async (t) => {
  const answers = ['One.', 'Two.']
  const url = await databaseFor(t)
  const teller = agent('teller', () => saying(answers.shift()!))
  const { gateway } = await podOn(t, url, {}, { agents: [teller] })
  const talk = await talkOn(t, { url, gateway, agent: 'teller' })
  const reader = await followAgUi(t, `${gateway}/v1/sessions/${talk.session}/ag-ui`)
  await talk.ended((await talk.send('Count.')).turn!)
  const { epoch } = await talk.get()
  const again = await call('POST', `${gateway}/v1/sessions/${talk.session}/regenerate`, { epoch })
  await talk.ended(again.body['turn'] as string)
  const now = async () => contents((await readByAgUi(reader.events)).messages)
  await eventually(async () => assert.deepEqual(await now(), ['user Count.', 'assistant Two.']), {
    what: 'the reply written anew',
  })
  const [asked] = await talk.items()
  await call('DELETE', `${gateway}/v1/sessions/${talk.session}/messages/${asked!.id}`)
  await eventually(async () => assert.deepEqual(await now(), ['assistant Two.']), {
    what: 'the erased message is gone',
  })
})

test('an agent in code passes on the events of another library', async (t) => {
  const url = await databaseFor(t)
  const relaying = agent('relaying', (of) => {
    const { id: threadId, turn } = of
    const stream = run({ threadId, runId: turn.id }, ...words('m', 'From afar.'))
    return fromAgUi(toAsync(stream as { type: string }[]), of)
  })
  const { gateway } = await podOn(t, url, {}, { agents: [relaying] })
  const talk = await talkOn(t, { url, gateway, agent: 'relaying' })
  await talk.ended((await talk.send('hi')).turn!)
  assert.equal((await talk.items())[1]?.parts.find(({ type }) => type === 'text')?.['text'], 'From afar.')
})

async function* halves(gate: Promise<void>) {
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: 'The first half, ' }
  await gate
  yield { type: 'text-delta', id: '1', delta: 'and the second.' }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}

async function* toAsync<One>(list: readonly One[]): AsyncGenerator<One> {
  yield* list
}

function contents(messages: readonly AgUiMessage[]): string[] {
  return messages.map(({ role, content }) => `${role} ${String(content)}`)
}
