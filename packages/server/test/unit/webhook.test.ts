// The call of an agent behind a URL, where there is nobody, or nobody who speaks HTTP.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AgentFault } from '../../src/agent/fault.ts'
import { eventually } from '../support/eventually.ts'
import { callAt, socketServer } from '../support/webhook.ts'

test('E8: stopped while it connects, the connection is closed as well', async (t) => {
  const ending = new AbortController()
  const { sockets, port } = await socketServer(t, () => undefined)
  const call = callAt(`https://127.0.0.1:${port}/`, { signal: ending.signal })
  call.catch(() => undefined)
  await eventually(() => assert.equal(sockets.length, 1), { what: 'the connection' })
  ending.abort(new Error('stopped'))
  await assert.rejects(call)
  await eventually(() => assert.ok(sockets[0]!.destroyed), { what: 'its end' })
})

test('what comes of a connection without an answer: its code, never an address', async (t) => {
  const closing = await socketServer(t, (socket) => socket.once('data', () => socket.destroy()))
  const babbling = await socketServer(t, (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'))
  const endless = await socketServer(t, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-le'))
  const cases = [
    [`https://127.0.0.1:${closing.port}/`, 'unreachable', false],
    [`http://127.0.0.1:${closing.port}/`, 'unreachable', false],
    [`http://127.0.0.1:${endless.port}/`, 'unreachable', false],
    [`http://127.0.0.1:${babbling.port}/`, 'agent_protocol', true],
    ['http://127.0.0.1:1/', 'unreachable', false],
  ] as const
  for (const [url, code, isFinal] of cases)
    await assert.rejects(callAt(url), (error) => {
      assert.ok(error instanceof AgentFault, url)
      assert.deepEqual([error.code, error.isFinal], [code, isFinal], `${url}: ${error.message}`)
      return !error.message.includes('127')
    })
})
