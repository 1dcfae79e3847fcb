// S14: whatever an agent answers, its turn ends with a reason that people can see. The turns of other agents go on.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { agentServer, lines, SAID } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { HOSTILE, hostileAgents } from '../support/hostile-agents.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { talkOn } from '../support/talk.ts'

const MOST = 64 * 1024 * 1024
const ON_THE_WAY = 16 * 1024 * 1024 // in the buffers of sockets

const PATIENT = { patienceMs: 120_000 }

/** Calls the agents at once on one pod, with an honest agent beside them. Returns how the turn of each ended. */
async function endsOf(t: TestContext, names: readonly string[], patienceMs: number) {
  const hostile = await hostileAgents(t)
  const honest = await agentServer(t, (_, response) => lines(response))
  const url = await databaseFor(t)
  const flags = {
    secretsKey: Buffer.alloc(32, 7).toString('base64'),
    agentHosts: '127.0.0.1',
    agentFirstMs: `${patienceMs}`,
    agentSilenceMs: `${patienceMs}`,
  }
  const { gateway } = await podOn(t, url, flags, { agents: [] })
  const talkTo = async (name: string, at: string) => {
    assert.equal((await call('POST', `${gateway}/v1/agents`, { name, url: at })).status, 201)
    return talkOn(t, { url, gateway, agent: name })
  }
  const neighbour = await talkTo('honest', honest.url)
  const talks = await Promise.all(names.map(async (name) => talkTo(name, hostile.urlOf(name))))
  const turns = await Promise.all(talks.map(async (talk) => (await talk.send('hi')).turn!))
  const beside = await neighbour.ended((await neighbour.send('hi')).turn!, PATIENT)
  assert.equal(beside.state, 'done')
  const shown: [name: string, end: string][] = []
  for (const [nth, name] of names.entries()) {
    const { error, state } = await talks[nth]!.ended(turns[nth]!, PATIENT)
    shown.push([name, error?.code ?? state])
  }
  const { state } = await neighbour.ended((await neighbour.send('again')).turn!, PATIENT)
  const items = await neighbour.items()
  assert.equal(state, 'done')
  assert.equal(items.length, 4)
  assert.equal(items.at(-1)!.parts[0]!['text'], SAID[2]!['delta' as never])
  return { shown: Object.fromEntries(shown), mostBytes: hostile.mostBytes() }
}

const NAMES = Object.keys(HOSTILE)
const [silent, loud] = [true, false].map((isSilent) =>
  NAMES.filter((name) => (HOSTILE[name]!.ends === 'timeout') === isSilent),
) as [string[], string[]]
const due = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, HOSTILE[name]!.ends]))

test('S14: turns of agents that say nothing end with a timeout; an honest agent beside them still replies', async (t) => {
  assert.ok(NAMES.length >= 20, `${NAMES.length} agents`)
  const { shown } = await endsOf(t, silent, 1_500)
  assert.deepEqual(shown, due(silent))
})

test('S14: turns of agents that send too much or the wrong thing end as they must; an honest agent still replies', async (t) => {
  const { shown, mostBytes } = await endsOf(t, loud, 60_000)
  assert.deepEqual(shown, due(loud))
  assert.ok(mostBytes <= MOST + ON_THE_WAY, `one agent could send ${mostBytes} bytes`)
  assert.equal(Object.hasOwn(Object.prototype, 'isAdmin'), false)
})
