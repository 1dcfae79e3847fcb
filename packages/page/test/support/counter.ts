// A fleet for pages that are used in a browser: an agent counts its calls, and speaks until it is told to end if it is asked to wait. Its
// pods want keys, and are behind one port.
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { agent, type AgentCall } from '../../../server/src/agent/agent.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { portInFront } from '../../../server/test/support/front.ts'
import { call } from '../../../server/test/support/http.ts'
import { CLOSED, podOn } from '../../../server/test/support/pod.ts'

export async function startCounter(t: TestContext) {
  let [calls, isOver] = [0, false]
  const counter = agent('counter', async function* ({ messages, signal }: AgentCall) {
    const text = String(messages.findLast(({ role }) => role === 'user')!.parts[0]!['text'])
    yield { type: 'start' }
    yield { type: 'start-step' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: `reply ${(calls += 1)} to ${text}` }
    if (text.includes('wait')) while (!isOver) await pause(20, undefined, { signal })
    yield { type: 'text-delta', id: '1', delta: '.' }
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish-step' }
    yield { type: 'finish' }
  })
  const url = await databaseFor(t)
  const front = { port: 1 }
  const gateway = `http://localhost:${await portInFront(t, () => front.port)}`
  const startPod = async () => {
    const made = await podOn(t, url, { ...CLOSED, drainMs: '0', unreadyMs: '0' }, { agents: [counter] })
    front.port = Number(new URL(made.gateway).port)
    return made.pod
  }
  const pod = await startPod()
  const { key } = await pod.keys.create({
    tenant: 'dev',
    name: 'backend',
    scopes: ['agents:write', 'tokens:mint'],
  })
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'counter' }, key)
  return {
    pod,
    startPod,
    gateway,
    key,
    goOn: () => (isOver = true),
    wait: () => (isOver = false),
    env: { FLEETLINE_URL: gateway, FLEETLINE_API_KEY: key },
  }
}
