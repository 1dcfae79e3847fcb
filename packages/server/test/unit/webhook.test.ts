// The call of an agent behind a URL, where there is nobody, or nobody who speaks HTTP.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { formatId } from '@fleetline/protocol'
import type { AgentCall } from '../../src/agent/agent.ts'
import { AgentFault } from '../../src/agent/fault.ts'
import { newSecret } from '../../src/agent/signature.ts'
import { createWebhooks } from '../../src/agent/webhook.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'

const UUID = '01980000-0000-7000-8000-000000000000'
const session = formatId('session', 0, UUID)

function callUntil(signal: AbortSignal): AgentCall {
  const turn = { id: formatId('turn', 0, UUID), messageId: formatId('message', 0, UUID) }
  return {
    id: session,
    trigger: 'submit-message',
    messages: [],
    turn: { ...turn, epoch: 1, attempt: 1, answers: { from: 1, to: 1 }, resume: 'restart' },
    session: { id: session, title: null },
    agent: { id: 'afar' },
    deadlineMs: 900_000,
    signal,
  }
}

async function serverFor(t: TestContext, onSocket: (socket: Socket) => void) {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined).resume())
    onSocket(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    sockets.forEach((socket) => socket.destroy())
    server.close()
  })
  return { sockets, host: `127.0.0.1:${(server.address() as AddressInfo).port}` }
}

async function callAt(url: string, signal = new AbortController().signal) {
  const webhooks = createWebhooks({ clock: systemClock(), version: '0' })
  const { answer } = webhooks.agentAt({ name: 'afar', url, secret: newSecret(systemRandom()) })
  return (await answer(callUntil(signal)))[Symbol.asyncIterator]().next()
}

test('E8: stopped while it connects, the connection is closed as well', async (t) => {
  const ending = new AbortController()
  const { sockets, host } = await serverFor(t, () => undefined)
  const call = callAt(`https://${host}/`, ending.signal)
  call.catch(() => undefined)
  await eventually(() => assert.equal(sockets.length, 1), { what: 'the connection' })
  ending.abort(new Error('stopped'))
  await assert.rejects(call)
  await eventually(() => assert.ok(sockets[0]!.destroyed), { what: 'its end' })
})

test('what comes of a connection without an answer: its code, never an address', async (t) => {
  const closing = await serverFor(t, (socket) => void socket.once('data', () => socket.destroy()))
  const babbling = await serverFor(t, (socket) => void socket.end('SSH-2.0-OpenSSH_9.2\r\n'))
  const endless = await serverFor(t, (socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-le'))
  const cases = [
    [`https://${closing.host}/`, 'unreachable', false],
    [`http://${closing.host}/`, 'unreachable', false],
    [`http://${endless.host}/`, 'unreachable', false],
    [`http://${babbling.host}/`, 'agent_protocol', true],
    ['http://127.0.0.1:1/', 'unreachable', false],
  ] as const
  for (const [url, code, isFinal] of cases)
    await assert.rejects(callAt(url), (error) => {
      assert.ok(error instanceof AgentFault, url)
      assert.deepEqual([error.code, error.isFinal], [code, isFinal], `${url}: ${error.message}`)
      return !error.message.includes('127')
    })
})
