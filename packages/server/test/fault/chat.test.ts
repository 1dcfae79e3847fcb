// A page with the AI SDK talks to a fleet behind a load balancer, and the pod that streams its reply dies. Beats are made old by hand, so no
// test waits for a ttl.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { DefaultChatTransport, type UIMessage } from 'ai'
import { createFront } from '../../src/cli/dev/front.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { bury, podRows } from '../support/fleet.ts'
import { makeSession } from '../support/http.ts'
import { APP, startPod } from '../support/pods.ts'
import { openDatabase } from '../support/store.ts'
import { chatOf } from '../support/use-chat.ts'

test('D6 E5: when the pod that streams a reply is killed, the stream breaks, the page resumes, and shows what is stored', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-chat-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'open')
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const first = await startPod(t, url, { FLEETLINE_POD_NAME: 'first' }, APP)
  let live = first
  const targets = () => [Number(new URL(live.gateway).port)]
  const front = createFront({ name: 'front', host: '127.0.0.1', port: 0, random: systemRandom(), targets })
  await front.start()
  atEnd(t, () => front.stop())
  await makeSession(first.gateway, { alias: 'demo', agent: 'parrot' })

  const api = `http://127.0.0.1:${front.port()}/v1/chat`
  const transport = new DefaultChatTransport<UIMessage>({ api, headers: { 'x-fleetline-ai-sdk': '7.0.169' } })
  const chat = chatOf({ id: 'demo', transport })
  const details = { details: () => JSON.stringify([chat.status, chat.error?.message, chat.messages]) }
  const words = () => JSON.stringify(chat.messages.at(-1)?.parts)
  const sent = chat.sendMessage({ text: `these words until:${file} are said once` })
  await eventually(() => assert.match(words(), /these words /), { what: 'the words', ...details })
  const second = await startPod(t, url, { FLEETLINE_POD_NAME: 'second' }, APP)
  const { pod } = (await podRows(database)).find(({ name }) => name === 'first')!
  live = second
  first.program.kill('SIGKILL')
  await sent
  assert.deepEqual([chat.status, chat.error?.message], ['error', 'terminated']) // as Node.js calls a connection that broke
  await bury(database, pod)
  const resumed = chat.resumeStream()
  await eventually(() => assert.equal(chat.status, 'streaming'), { what: 'the second attempt', ...details })
  writeFileSync(file, '')
  await resumed
  assert.equal(chat.status, 'ready')
  const loaded = (await (await fetch(`${api}/demo/messages`)).json()) as UIMessage[]
  const plain = (messages: readonly UIMessage[]) =>
    JSON.stringify(messages.map(({ id, parts }) => [id, parts]))
  assert.equal(plain(chat.messages), plain(loaded))
  assert.match(words(), /these words are said once /)
})
