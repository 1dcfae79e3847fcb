// The model of a dev fleet, and its agent, against a server that speaks OpenAI's chat completions as they are published.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { newSecret } from '../../src/agent/signature.ts'
import { createModelAgent } from '../../src/cli/dev/model-agent.ts'
import { findModel } from '../../src/cli/dev/model.ts'
import { modelWishOf } from '../../src/config.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { ends, eventOf, modelServer, says, type Speech } from '../support/model-server.ts'
import { podOn } from '../support/pod.ts'
import { talkOn } from '../support/talk.ts'

const KEY = 'sk-of-a-test'
/** A talk with the model through a pod. */
async function talkWith(t: TestContext, speech: Speech) {
  const { asked, url: server } = await modelServer(t, speech)
  const random = systemRandom()
  const [secret, reasons]: [string, string[]] = [newSecret(random), []]
  const model = { url: server, name: 'talker', key: KEY }
  const agent = createModelAgent({
    model,
    port: 0,
    secret: () => secret,
    onRefused: (reason) => reasons.push(reason),
  })
  await agent.start()
  atEnd(t, () => agent.stop())
  const url = await databaseFor(t)
  const flags = { secretsKey: Buffer.from(random.bytes(32)).toString('base64'), agentHosts: '127.0.0.1' }
  const { gateway } = await podOn(t, url, flags, { agents: [] })
  await call('POST', `${gateway}/v1/agents`, { name: 'model', url: agent.url(), secret })
  return { ...(await talkOn(t, { url, gateway, agent: 'model' })), asked, reasons, agent }
}

test('a dev fleet uses the model that the environment names, else OpenAI’s if it has a key, else a local one', async (t) => {
  const { url } = await modelServer(t)
  const [silent, openAi] = ['http://localhost:1/v1', 'https://api.openai.com/v1']
  const find = (environment: Record<string, string>, here: readonly string[] = []) =>
    findModel(modelWishOf(environment), here)
  const [base, key] = [{ OPENAI_BASE_URL: `${url}/` }, { OPENAI_API_KEY: KEY }]
  assert.deepEqual(await find(base), { url, key: undefined, name: 'talker' })
  assert.deepEqual(await find({ ...base, ...key, OPENAI_MODEL: 'other' }), { url, key: KEY, name: 'other' })
  assert.deepEqual(await find(key, [url]), { url: openAi, key: KEY, name: 'gpt-5-mini' })
  assert.deepEqual(await find({ OPENAI_API_KEY: ' ' }, [silent, url]), {
    url,
    key: undefined,
    name: 'talker',
  })
  assert.equal(await find({}, [silent]), undefined)
  await assert.rejects(
    find({ OPENAI_BASE_URL: silent }),
    /names no model: start it, set OPENAI_MODEL, or give --no-model/,
  )
  await assert.rejects(async () => find({ OPENAI_BASE_URL: 'localhost:1' }), /OPENAI_BASE_URL must be a URL/)
})

test('the reply is the model’s reasoning, then what it says', async (t) => {
  const speech: Speech = (response, nth) => {
    says(
      response,
      { role: 'assistant', content: '' },
      { reasoning: 'hm' },
      { content: 'good ' },
      { content: `day ${nth}` },
    )
    ends(response)
  }
  const talk = await talkWith(t, speech)
  for (const text of ['hi', 'and?']) {
    const { turn } = await talk.send(text)
    assert.equal((await talk.ended(turn!)).state, 'done')
  }
  const said = (await talk.items()).map(({ parts }) =>
    parts.map(({ type, text }) => `${type}: ${text as string}`),
  )
  assert.deepEqual(said, [
    ['text: hi'],
    ['reasoning: hm', 'text: good day 1'],
    ['text: and?'],
    ['reasoning: hm', 'text: good day 2'],
  ])
  const { headers, body, path } = talk.asked[1]!
  assert.equal(path, '/v1/chat/completions')
  assert.equal(headers.authorization, `Bearer ${KEY}`)
  assert.deepEqual(JSON.parse(body.toString()), {
    model: 'talker',
    stream: true,
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'good day 1' },
      { role: 'user', content: 'and?' },
    ],
  })
  const unsigned = await fetch(talk.agent.url(), { method: 'POST', body: '{}' })
  assert.equal(unsigned.status, 401)
})

test('a model that is busy or breaks off is asked again, one that refuses is not; reasons never show the key', async (t) => {
  const refuses =
    (status: number, error: object): Speech =>
    (response) =>
      response.writeHead(status).end(JSON.stringify({ error }))
  const steps: Speech[] = [
    (response) => response.writeHead(429, { 'retry-after': '0' }).end(),
    (response) => {
      says(response, { content: 'good' })
      response.end() // before the model has finished
    },
    (response) => {
      says(response, { content: 'good' })
      response.end(eventOf({ error: { message: 'out of memory' } }))
    },
    (response) => {
      says(response, { content: 7 })
      response.end()
    },
    (response) => {
      says(response, { content: 'good day' })
      ends(response)
    },
    refuses(401, { message: `The key ${KEY} is wrong` }),
    refuses(429, { message: 'No credit', code: 'insufficient_quota' }),
  ]
  const talk = await talkWith(t, (response, nth) => steps[nth - 1]!(response, nth))
  const first = await talk.ended((await talk.send('hi')).turn!)
  assert.equal(first.state, 'done')
  assert.equal(first.attempt, 5)
  for (const text of ['hi', 'and?']) {
    const { state, error } = await talk.ended((await talk.send(text)).turn!)
    assert.deepEqual({ state, code: error?.code }, { state: 'failed', code: 'agent_refused' })
  }
  assert.deepEqual(talk.reasons, [
    'status 429',
    'its answer broke off',
    'it failed in the middle: {"message":"out of memory"}',
    'its answer broke off, or cannot be read',
    'status 401: The key … is wrong',
    'status 429: No credit',
  ])
  assert.equal(talk.asked.length, steps.length)
})
