// A dev fleet as a person uses it. proof/dev-faults.test.ts kills a fleet, and its pods from the page.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Ack, Turn } from '@fleetline/protocol'
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
import { runCli, runProgram } from '../support/program.ts'
import { openDatabase } from '../support/store.ts'

const ENDING_POD = join(import.meta.dirname, '../support/ending-pod.ts')

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

/** Asks the demo agent for its reply of a minute. Resolves to the turn when it runs. */
async function longReply(api: string) {
  const { body } = await call('POST', `${api}/sessions/demo/messages`, { text: 'long' })
  const { turn: id } = body as unknown as Ack
  const turn = async () => (await call('GET', `${api}/turns/${id}`)).body as unknown as Turn
  const runs = async (attempt: number) =>
    eventually(
      async () => {
        const now = await turn()
        assert.deepEqual([now.state, now.attempt], ['running', attempt])
        return now
      },
      { what: `attempt ${attempt}`, patienceMs: PATIENCE_MS },
    )
  return { runs, first: await runs(1) }
}

async function attemptsOf(t: TestContext, url: string): Promise<readonly number[]> {
  const database = await openDatabase(t, url)
  const rows = await database.transaction((query) =>
    query<{ spent: number }>('select spent from fleetline.tasks'),
  )
  assert.ok(rows.type === 'committed')
  return rows.value.map(({ spent }) => spent)
}

test('a pod hands its reply back when it is restarted, and when the fleet stops: no attempt counts', async (t) => {
  const home = homeFor(t)
  const url = await databaseFor(t)
  const env = { ...envOf(home), FLEETLINE_DRAIN_MS: '1000' }
  const fleet = runCli(t, ['dev', '--json', '--no-model', '--database-url', url], env, home.path)
  const [{ api, page }] = (await ready(fleet)) as [Required<Said>, ...Said[]]
  const { first, runs } = await longReply(api)
  const logOf = (pod: string) => readFileSync(join(home.path, `.fleetline/${pod}.log`), 'utf8')
  assert.equal((await fetch(`${page}/dev/pods/${first.pod}/restart`, { method: 'POST' })).status, 200)
  await runs(2)
  assert.deepEqual(await attemptsOf(t, url), [1])
  await eventually(() => assert.match(logOf(first.pod!), /"drained"[^]*"stopped"/), { what: 'its end' })
  fleet.kill('SIGTERM')
  assert.equal(await ended(fleet), 0, fleet.output())
  assert.deepEqual(await attemptsOf(t, url), [0])
  for (const pod of ['pod-1', 'pod-2']) assert.match(logOf(pod), /"drained"[^]*"stopped"[^]*$/)
  assert.doesNotMatch(fleet.output(), /counts a pod as dead/)
})

// Mutant: the process is killed after 15 s.
test('a pod of a dev fleet is killed only when its whole stop could have ended, and the fleet says so', async (t) => {
  const [url, home] = [await databaseFor(t), homeFor(t)]
  const program = runProgram(t, ENDING_POD, { args: [url, home.path] })
  const said = (what: RegExp) =>
    eventually(() => what.exec(program.printed())![0], { what: String(what), details: program.output })
  const api = await said(/http:.*/)
  await call('POST', `${api}/sessions`, { alias: 'demo', agent: 'demo' })
  await longReply(api)
  program.kill('SIGUSR2')
  await said(/both have ended/)
  assert.match(readFileSync(join(home.path, 'pod-1.log'), 'utf8'), /"stopped"/)
  const killed = program.printed().match(/.* was killed: .*/g)
  assert.deepEqual(killed, [`pod-2 was killed: its stop took too long, see ${home.path}/pod-2.log`])
  assert.deepEqual(await attemptsOf(t, url), [0])
})
