// Requests to a chat that come twice, because a page has lost the answer. One request pauses before a transaction while the other runs to its
// first words. This repeats for every transaction. Both must get the same.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Session } from '@fleetline/protocol'
import { agent } from '../../src/agent/agent.ts'
import type { ChatRequest } from '../../src/gateway/chat/chat-request.ts'
import { levelOf } from '../../src/gateway/chat/sdk-levels.ts'
import type { Principal } from '../../src/identity/principal.ts'
import { chatsOn } from '../support/chats.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'

const PRINCIPAL: Principal = {
  tenant: 1,
  scopes: new Set(['sessions:read', 'sessions:write']),
  key: 'test',
}
const READER = { principal: PRINCIPAL, level: levelOf(undefined, [7, 0, 0]) }
const userMessage = (text: string, id = 'asked') => ({ id, role: 'user', parts: [{ type: 'text', text }] })

/** The words of a reply, up to its end, or as far as they come at once. */
async function wordsOf({ body }: Response): Promise<string> {
  let text = ''
  for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
    text += piece
    if (/"delta":"(wait|again)/.test(text)) break
  }
  return text
}

/** An agent that waits in the middle of its reply to `wait`, and of its second reply to `once`. */
async function openFleet(t: TestContext) {
  const parrot = agent('parrot', async function* ({ messages, trigger, signal }) {
    const isAgain = trigger === 'regenerate-message'
    const asked = String(messages.at(-1)!.parts[0]!['text'])
    const text = asked === 'once' && isAgain ? 'again' : asked
    yield { type: 'start' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: text }
    if (text === 'wait' || text === 'again') await new Promise((end) => signal.addEventListener('abort', end))
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish' }
  })
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, { drainMs: '0' }, { agents: [parrot] })
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'parrot' })
  let [count, meanwhile]: [number, (place: number) => Promise<unknown>] = [0, async () => undefined]
  const before = async () => void (await meanwhile((count += 1)))
  const chats = await chatsOn(t, { url, agent: 'parrot', before })
  const post = (body: object) =>
    fetch(`${gateway}/v1/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  return {
    post,
    /** Sends the first message of a chat. Returns the id of the reply, whose first words have come. */
    say: async (id: string, text: string) => {
      const words = await wordsOf(await post({ id, message: userMessage(text) }))
      return /"messageId":"(msg_\w+)"/.exec(words)![1]!
    },
    /** Does `work` before the transaction at this place; returns what the request gets. A transaction may also come from what goes on in the
     *  background. */
    submitAround: async <Done>(request: ChatRequest, at: number, work: () => Promise<Done>) => {
      let done: Promise<Done> | undefined
      count = 0
      meanwhile = async (place) => place === at && (done = work())
      const { headers, body } = await chats.submit(READER, request)
      for await (const _ of body({ signal: AbortSignal.abort(), cut: () => undefined })); // it holds the place of a reader
      return { headers, done: await done }
    },
    session: async (id: string) =>
      (await call('GET', `${gateway}/v1/sessions/${id}`)).body as unknown as Session,
  }
}
type Fleet = Awaited<ReturnType<typeof openFleet>>

/** Prepares a chat, and returns the request that comes twice. */
type Prepare = (fleet: Fleet, id: string) => Promise<Omit<ChatRequest, 'id'>>

const REQUESTS: Readonly<Record<string, Prepare>> = {
  'an edit': async ({ say }, id) => {
    await say(id, 'one')
    return { trigger: 'submit-message', messageId: 'asked', messages: [userMessage('two')] }
  },
  'an edit during the reply': async ({ say }, id) => {
    await say(id, 'wait')
    return { trigger: 'submit-message', messageId: 'asked', messages: [userMessage('two')] }
  },
  'a regenerate': async ({ say }, id) => {
    const messageId = await say(id, 'one')
    return { trigger: 'regenerate-message', messageId, messages: [userMessage('one')] }
  },
  'a regenerate that takes long': async ({ say }, id) => {
    const messageId = await say(id, 'once')
    return { trigger: 'regenerate-message', messageId, messages: [userMessage('once')] }
  },
  'a regenerate of the reply that is written': async ({ say }, id) => {
    const messageId = await say(id, 'wait')
    return { trigger: 'regenerate-message', messageId, messages: [userMessage('wait')] }
  },
}

for (const [name, prepare] of Object.entries(REQUESTS))
  test(`E10: ${name}, sent twice: both get the same turn, whatever comes in between`, async (t) => {
    const fleet = await openFleet(t)
    for (let at = 1; ; at += 1) {
      const id = `chat-${at}`
      const request = { id, ...(await prepare(fleet, id)) }
      const { headers, done: first } = await fleet.submitAround(request, at, async () => {
        const response = await fleet.post(request)
        await wordsOf(response)
        return response
      })
      if (!first) return assert.ok(at > 5, 'it has more than five transactions')
      assert.equal(first.status, 200)
      const names = ['x-fleetline-seq', 'x-fleetline-turn', 'x-fleetline-epoch']
      const firsts = names.map((one) => first.headers.get(one))
      assert.deepEqual(
        names.map((one) => headers[one]),
        firsts,
        `before transaction ${at}`,
      )
      assert.equal(String((await fleet.session(id)).epoch), firsts[2], 'no further turn has begun')
    }
  })
