// One call to an agent behind a URL, without a pod, and socket servers for it to call.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { formatId } from '@fleetline/protocol'
import type { AgentCall } from '../../src/agent/agent.ts'
import { createGuard } from '../../src/agent/guard.ts'
import { settingsOf } from '../../src/agent/settings.ts'
import { newSecret } from '../../src/agent/signature.ts'
import { createWebhooks } from '../../src/agent/webhook.ts'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { hostsOf } from '../../src/lib/hosts.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { atEnd } from './cleanup.ts'

const UUID = '01980000-0000-7000-8000-000000000000'
const session = formatId('session', 0, UUID)

type Around = {
  /** The hosts that the operator allows. */
  readonly open?: string
  readonly nameServers?: readonly string[]
  readonly clock?: Clock
  readonly signal?: AbortSignal
}

/** Calls the agent. Resolves to the first step of its answer. */
export async function callAt(
  url: string,
  {
    open = '127.0.0.1',
    clock = systemClock(),
    signal = new AbortController().signal,
    ...nameServers
  }: Around = {},
) {
  const guard = createGuard({ open: hostsOf(open)!, clock, ...nameServers })
  const webhooks = createWebhooks({ clock, version: '0', guard })
  const afar = { name: 'afar', url, secret: newSecret(systemRandom()), settings: settingsOf({}) }
  const { answer } = webhooks.agentAt(afar)
  return (await answer(callUntil(signal)))[Symbol.asyncIterator]().next()
}

function callUntil(signal: AbortSignal): AgentCall {
  const turn = { id: formatId('turn', 0, UUID), messageId: formatId('message', 0, UUID) }
  return {
    id: session,
    trigger: 'submit-message',
    messages: [],
    turn: { ...turn, epoch: 1, attempt: 1, answers: { from: 1, to: 1 }, resume: 'restart' },
    session: { id: session, title: null, metadata: null },
    agent: { id: 'afar' },
    deadlineMs: 900_000,
    signal,
  }
}

/** Listens on a free port, or on `port`, which another server may use on another host. */
export async function socketServer(
  t: TestContext,
  onSocket: (socket: Socket) => unknown,
  { host = '127.0.0.1', port = 0 } = {},
) {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined).resume())
    onSocket(socket)
  })
  server.listen(port, host)
  await once(server, 'listening')
  atEnd(t, () => {
    sockets.forEach((socket) => socket.destroy())
    server.close()
  })
  return { sockets, port: (server.address() as AddressInfo).port }
}
