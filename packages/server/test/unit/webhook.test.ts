// Calls to an agent behind a URL where no server answers, or none that speaks HTTP.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AgentFault } from '../../src/agent/fault.ts'
import { eventually } from '../support/eventually.ts'
import { callAt, socketServer } from '../support/webhook.ts'

test('E8: a stop while the call connects closes the connection, too', async (t) => {
  const ending = new AbortController()
  const { sockets, port } = await socketServer(t, () => undefined)
  const call = callAt(`https://127.0.0.1:${port}/`, { signal: ending.signal })
  call.catch(() => undefined)
  await eventually(() => assert.equal(sockets.length, 1), { what: 'the connection' })
  ending.abort(new Error('stopped'))
  await assert.rejects(call)
  await eventually(() => assert.ok(sockets[0]!.destroyed), { what: 'its end' })
})

test('a connection without a valid answer fails with a code, and the error names no address', async (t) => {
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
      assert.equal(error.code, code, `${url}: ${error.message}`)
      assert.equal(error.isFinal, isFinal, `${url}: ${error.message}`)
      assert.ok(!error.message.includes('127'), error.message)
      return true
    })
})
