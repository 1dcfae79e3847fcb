// A dev fleet as a person meets it: a process in a directory of its own. No settings reach it but any free ports.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import pg from 'pg'
import type { Scene } from '../../src/cli/dev/page/wire.ts'
import { atEnd } from '../support/cleanup.ts'
import { agentServer, lines } from '../support/agent-server.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { ends, modelServer, says } from '../support/model-server.ts'
import { runCli, type Program } from '../support/program.ts'

type Said = {
  readonly source?: string
  readonly message?: string
  readonly operator?: string
  readonly page?: string
  readonly api?: string
  readonly agent?: string
}
type Home = { readonly path: string; readonly mark: string }

const PATIENCE_MS = 120_000 // the data of a server is made on a disk that may be busy

function homeFor(t: TestContext): Home {
  const path = mkdtempSync(join(tmpdir(), 'fleetline-dev-'))
  chmodSync(path, 0o755) // PostgreSQL may run as another user
  atEnd(t, () => rmSync(path, { recursive: true, force: true }))
  return { path, mark: `TEST_MARK=${randomUUID()}` }
}

function envOf({ mark }: Home): Record<string, string> {
  return {
    [mark.split('=')[0]!]: mark.split('=')[1]!,
    FLEETLINE_PORT: '0',
    FLEETLINE_OPERATOR_PORT: '0',
  }
}

function runDev(t: TestContext, home: Home, ...words: string[]): Program {
  return runCli(t, ['dev', '--json', '--no-model', ...words], envOf(home), home.path)
}

function saidBy(program: Program): Said[] {
  const lines = program.output().split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as Said)
}

async function ready(fleet: Program): Promise<Said[]> {
  const check = () => {
    const said = saidBy(fleet)
    assert.ok(said.some(({ source, message }) => source === 'fleet' && message === 'ready'))
    return said
  }
  return eventually(check, { what: 'the fleet to be ready', patienceMs: PATIENCE_MS, details: fleet.output })
}

async function ended(program: Program): Promise<number | null> {
  const options = { what: 'the program to end', patienceMs: PATIENCE_MS, details: program.output }
  await eventually(() => assert.ok(program.hasEnded()), options)
  return (await program.ended).code
}

/** Of the fleet, by a mark in the environment, which goes from parent to child; PostgreSQL's by where they stand. */
function processesOf({ path, mark }: Home): string[] {
  return globSync('/proc/[0-9]*').filter((process) => {
    try {
      const place = readlinkSync(`${process}/cwd`)
      return place.startsWith(path) || readFileSync(`${process}/environ`, 'latin1').includes(mark)
    } catch {
      return false // it has ended, or it is another user's
    }
  })
}

/** The pause of a guard's loop may outlive the fleet by a tenth of a second. */
async function nothingRuns(home: Home): Promise<void> {
  await eventually(() => assert.deepEqual(processesOf(home), []), { what: 'all processes to end' })
}

async function query(home: Home, text: string): Promise<unknown[]> {
  const client = new pg.Client(readFileSync(join(home.path, '.fleetline/database-url'), 'utf8'))
  await client.connect()
  const { rows } = await client.query(text).finally(() => client.end())
  return rows
}

test('two pods are ready; SIGINT leaves no process and no lock; the next start has the data, and a model', async (t) => {
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

test('what a killed fleet had started ends by itself; the next start takes over its lock and its data', async (t) => {
  const home = homeFor(t)
  const killed = runDev(t, home, '--pods', '1')
  await ready(killed)
  const left = processesOf(home)
  assert.ok(left.length > 2)
  await query(home, 'create table kept as select 7 as number')
  killed.kill('SIGKILL')
  const next = runDev(t, home, '--pods', '1') // at once: the server may still be ending
  await ready(next)
  assert.deepEqual(await query(home, 'select number from kept'), [{ number: 7 }])
  await eventually(
    () =>
      assert.deepEqual(
        left.filter((process) => processesOf(home).includes(process)),
        [],
      ),
    {
      what: 'what was left to end',
      patienceMs: PATIENCE_MS,
    },
  )
  next.kill('SIGTERM')
  assert.equal(await ended(next), 0, next.output())
  await nothingRuns(home)
})

test('a pod that dies is started again; your agent answers in the session local', async (t) => {
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

test('from the page a pod is killed, paused and restarted; a fleet that stops leaves no paused pod', async (t) => {
  const home = homeFor(t)
  const fleet = runDev(t, home, '--database-url', await databaseFor(t), '--pods', '2')
  const [{ page, api }] = (await ready(fleet)) as [Said, ...Said[]]
  const pidOf = (pod: string) => Number(readFileSync(join(home.path, `.fleetline/${pod}.pid`), 'utf8'))
  const isStopped = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T ')
  const act = async (pod: string, what: string) =>
    (await fetch(`${page}/dev/pods/${pod}/${what}`, { method: 'POST' })).status
  const untilReady = (pod: string, isIt: (pid: number) => boolean) =>
    eventually(
      async () => {
        const { pods } = (await (await fetch(`${page}/dev/scene`)).json()) as Scene
        assert.equal(pods.find(({ name }) => name === pod)!.state, 'ready')
        const pid = pidOf(pod) // 0 between two lives
        assert.ok(pid > 0 && isIt(pid))
      },
      { what: `${pod} to be ready`, patienceMs: PATIENCE_MS, details: fleet.output },
    )

  const killed = pidOf('pod-1')
  assert.equal(await act('pod-1', 'kill'), 200)
  await untilReady('pod-1', (pid) => pid !== killed)

  const paused = pidOf('pod-2')
  assert.equal(await act('pod-2', 'pause'), 200)
  await eventually(() => assert.ok(isStopped(paused)), { what: 'the pause' })
  const { headers } = await fetch(`${page}/devices/phone/v1/sessions/demo`)
  assert.equal(headers.get('x-fleetline-pod'), 'pod-1')
  assert.equal(await act('pod-2', 'restart'), 200) // it has to run for that
  await untilReady('pod-2', (pid) => pid !== paused)

  assert.equal((await fetch(`${new URL(api!).origin}/dev/scene`)).status, 404) // a pod has none of this
  assert.equal(await act('pod-2', 'pause'), 200)
  fleet.kill('SIGINT')
  assert.equal(await ended(fleet), 0, fleet.output())
  await nothingRuns(home)
})
