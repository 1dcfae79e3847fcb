// A dev fleet as a person uses it. proof/dev-faults.test.ts kills a fleet, and its pods from the page.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { agentServer, lines } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import {
  ended,
  envOf,
  homeFor,
  nothingRuns,
  PATIENCE_MS,
  processesOf,
  query,
  ready,
  runDev,
  saidBy,
  type Said,
} from '../support/dev-fleet.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { ends, modelServer, says } from '../support/model-server.ts'
import { runCli } from '../support/program.ts'

test('a dev fleet leaves no process and no lock after SIGINT, and the next start has its data and a model', async (t) => {
  const home = homeFor(t)
  const first = runDev(t, home, '--pods', '2')
  const said = await ready(first)
  const names = said.filter(({ message }) => message === 'ready').map(({ source }) => source)
  assert.deepEqual(new Set(names), new Set(['fleet', 'pod-1', 'pod-2']))
  assert.equal((await fetch(`${said[0]!.operator}/readyz`)).status, 200)
  await query(home, 'create table kept as select 7 as number')

  const second = runDev(t, home)
  assert.equal(await ended(second), 4)
  assert.match(second.output(), new RegExp(`runs in this directory, process ${first.pid}:`))

  first.kill('SIGINT')
  assert.equal(await ended(first), 0, first.output())
  await nothingRuns(home)
  assert.ok(!existsSync(join(home.path, '.fleetline/lock')))

  const { url } = await modelServer(t, (response) => (says(response, { content: 'hello' }), ends(response)))
  const third = runCli(
    t,
    ['dev', '--json'],
    { ...envOf(home), OPENAI_BASE_URL: url, OPENAI_MODEL: 'talker' },
    home.path,
  )
  const [{ agent, api }] = (await ready(third)) as [Said, ...Said[]]
  assert.equal(agent, `model, talker at ${url}`)
  assert.deepEqual(await query(home, 'select number from kept'), [{ number: 7 }])
  await call('POST', `${api}/sessions/model/messages`, { text: 'hi' })
  await eventually(
    async () => assert.equal((await call('GET', `${api}/sessions/model/messages`)).body['head'], 2),
    { what: 'the reply of the model', details: third.output },
  )
  third.kill('SIGINT')
  assert.equal(await ended(third), 0, third.output())
})

test('a pod that dies is started again, and your agent answers in the session local', async (t) => {
  const home = homeFor(t)
  const { url } = await agentServer(t, (_, response) => lines(response))
  const words = ['--database-url', await databaseFor(t), '--pods', '1', '--agent', url]
  const fleet = runDev(t, home, ...words)
  const [{ api }] = (await ready(fleet)) as [Said, ...Said[]]
  const pods = processesOf(home).filter((path) => path !== `/proc/${fleet.pid}`)
  const pid = Number(readFileSync(join(home.path, '.fleetline/pod-1.pid')))
  assert.deepEqual(pods, [`/proc/${pid}`])
  process.kill(pid, 'SIGKILL')
  const lives = () => saidBy(fleet).filter(({ source, message }) => source === 'pod-1' && message === 'ready')
  const options = { what: 'its second life', patienceMs: PATIENCE_MS, details: fleet.output }
  await eventually(() => assert.equal(lives().length, 2), options)
  const log = `${api}/sessions/local/messages`
  const sent = { message: { id: 'once', parts: [{ type: 'text', text: 'hi' }] } }
  await eventually(async () => {
    assert.equal((await call('POST', log, sent)).status, 200) // the port leads to the pod a moment later
    assert.equal((await call('GET', log)).body['head'], 2)
  }, options)
  fleet.kill('SIGINT')
  assert.equal(await ended(fleet), 0, fleet.output())
  assert.deepEqual(globSync('.fleetline/*.pid', { cwd: home.path }), [])
})
