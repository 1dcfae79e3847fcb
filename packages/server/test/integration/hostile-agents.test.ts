// S14: whatever an agent answers, its own turn ends, for a reason that people are told; its neighbours' go on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agentServer, lines, SAID } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { HOSTILE, hostileAgents } from '../support/hostile-agents.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { talkOn } from '../support/talk.ts'

const FLAGS = {
  secretsKey: Buffer.alloc(32, 7).toString('base64'),
  agentHosts: '127.0.0.1',
  agentFirstMs: '1500',
  agentSilenceMs: '1500',
}
const MOST = 64 * 1024 * 1024
const ON_THE_WAY = 16 * 1024 * 1024 // in the buffers of sockets

test('S14: hostile agents are cut and named, all at once; the turn of a neighbour is done beside them', async (t) => {
  const hostile = await hostileAgents(t)
  const honest = await agentServer(t, (_, response) => lines(response))
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, FLAGS, { agents: [] })
  const talkTo = async (name: string, at: string) => {
    assert.equal((await call('POST', `${gateway}/v1/agents`, { name, url: at })).status, 201)
    return talkOn(t, { url, gateway, agent: name })
  }
  const neighbour = await talkTo('honest', honest.url)
  const names = Object.keys(HOSTILE)
  assert.ok(names.length >= 20)
  const talks = await Promise.all(names.map(async (name) => talkTo(name, hostile.urlOf(name))))
  const turns = await Promise.all(talks.map(async (talk) => (await talk.send('hi')).turn!))
  const beside = await neighbour.ended((await neighbour.send('hi')).turn!)
  assert.equal(beside.state, 'done')
  const shown: [name: string, end: string][] = []
  for (const [nth, name] of names.entries()) {
    const { error, state } = await talks[nth]!.ended(turns[nth]!)
    shown.push([name, error?.code ?? state])
  }
  assert.deepEqual(
    Object.fromEntries(shown),
    Object.fromEntries(names.map((name) => [name, HOSTILE[name]!.ends])),
  )
  const most = hostile.mostBytes()
  assert.ok(most <= MOST + ON_THE_WAY, `one of them could send ${most} bytes`)
  const { state } = await neighbour.ended((await neighbour.send('again')).turn!)
  const items = await neighbour.items()
  assert.deepEqual([state, items.length], ['done', 4])
  assert.equal(items.at(-1)!.parts[0]!['text'], SAID[2]!['delta' as never])
  assert.equal(Object.hasOwn(Object.prototype, 'isAdmin'), false)
})
