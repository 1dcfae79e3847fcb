// An agent's process is killed in the middle of its reply. A port in front of it leads to the next one, as a load balancer does.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { newSecret } from '../../src/agent/signature.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { portInFront } from '../support/front.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { runProgram } from '../support/program.ts'
import { openText, readEvents } from '../support/reader.ts'
import { talkOn } from '../support/talk.ts'

const AGENT = join(import.meta.dirname, '../support/agent-process.ts')

async function startAgent(t: TestContext, ...args: string[]) {
  const program = runProgram(t, AGENT, { args })
  const port = await eventually(() => Number(/port (\d+)/.exec(program.output())![1]), {
    what: 'the agent',
    details: program.output,
  })
  const calls = () => Array.from(program.output().matchAll(/called (\S+ \d)/g), ([, one]) => one)
  return { ...program, port, calls }
}

test('E5: an agent that is killed during its reply is called again under the same key, and one reply is stored', async (t) => {
  const random = systemRandom()
  const secret = newSecret(random)
  const [dying, next] = await Promise.all([startAgent(t, secret, 'holds'), startAgent(t, secret)])
  let target = dying.port
  const port = await portInFront(t, () => target)
  const url = await databaseFor(t)
  const flags = { secretsKey: Buffer.from(random.bytes(32)).toString('base64'), agentHosts: '127.0.0.1' }
  const { gateway } = await podOn(t, url, flags, { agents: [] })
  await call('POST', `${gateway}/v1/agents`, { name: 'afar', url: `http://127.0.0.1:${port}/`, secret })
  const talk = await talkOn(t, { url, gateway, agent: 'afar' })
  const { turn } = await talk.send('hi')
  const reader = await readEvents(t, `${gateway}/v1/sessions/${talk.session}/events`)
  const said = `said by ${dying.pid}`
  await eventually(() => assert.equal(openText(reader.frames, turn!), said), { what: 'the first words' })
  target = next.port
  dying.kill()
  const done = await talk.ended(turn!)
  assert.equal(done.state, 'done')
  assert.equal(done.attempt, 2)
  assert.deepEqual(dying.calls(), [`${turn} 1`])
  assert.deepEqual(next.calls(), [`${turn} 2`])
  const shown = (await talk.items()).map(({ role, parts }) => [role, parts[0]!['text']])
  assert.deepEqual(shown, [
    ['user', 'hi'],
    ['assistant', `said by ${next.pid}`],
  ])
})
