import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { valueOf } from '../../src/store/database.ts'
import { agentServer, lines } from '../support/agent-server.ts'
import { atEnd } from '../support/cleanup.ts'
import { admin as runAsOwner, databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { podRows } from '../support/fleet.ts'
import { call } from '../support/http.ts'
import { OF_CLUSTER } from '../support/pod.ts'
import { ANY_PORTS, linesOf, NO_KEYS, startPod } from '../support/pods.ts'
import { CLI, runCli, runProgram } from '../support/program.ts'
import { openDatabase } from '../support/store.ts'
import { talkOn } from '../support/talk.ts'

const APP = join(import.meta.dirname, '../support/app.ts')

test('a pod without an app calls agents behind URLs, and stops in order with exit code 0', async (t) => {
  const url = await databaseFor(t)
  const afar = await agentServer(t, (_, response) => lines(response))
  const { program, admin, gateway } = await startPod(t, url, {
    FLEETLINE_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
    FLEETLINE_AGENT_HOSTS: '127.0.0.1',
  })
  assert.equal((await fetch(`${admin}/readyz`)).status, 200)
  await call('POST', `${gateway}/v1/agents`, { name: 'afar', url: afar.url })
  const talk = await talkOn(t, { url, gateway, agent: 'afar' })
  assert.equal((await talk.ended((await talk.send('hi')).turn!)).state, 'done')
  program.kill('SIGTERM')
  await eventually(() => assert.ok(program.hasEnded()), { what: 'the pod to end', details: program.output })
  assert.deepEqual(await program.ended, { code: 0, signal: null })
  const own = linesOf(program).filter(({ msg }) => ['ready', 'stopping', 'stopped'].includes(msg))
  assert.deepEqual(
    own.map(({ msg }) => msg),
    ['ready', 'stopping', 'stopped'],
  )
  assert.equal(linesOf(program).at(-1)?.msg, 'stopped')
})

test('a pod whose log cannot be written goes on, even if its app prints as it is loaded, and stops in order', async (t) => {
  const url = await databaseFor(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-app-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const app = join(folder, 'app.mjs')
  writeFileSync(
    app,
    `console.log('hello')\nawait new Promise(setImmediate)\nexport * from ${JSON.stringify(APP)}\n`,
  )
  const program = runProgram(t, CLI, {
    args: ['start', app],
    env: { DATABASE_URL: url, ...ANY_PORTS, ...NO_KEYS, FLEETLINE_UNREADY_MS: '0' },
    by: ['sh', '-c', 'exec "$@" > /dev/full', 'sh', process.execPath, '--conditions=fleetline-source'],
  })
  const database = await openDatabase(t, url)
  const isIn = (state: string) =>
    eventually(async () => assert.equal((await podRows(database))[0]?.state, state), {
      what: `the pod to be ${state}`,
      details: program.output,
    })
  await isIn('live')
  program.kill('SIGTERM')
  await eventually(() => assert.ok(program.hasEnded()), { what: 'the pod to end', details: program.output })
  assert.deepEqual(await program.ended, { code: 0, signal: null }, program.output())
  await isIn('dead')
})

test('a pod that `start` runs has no route of the dev page on either port', async (t) => {
  const { gateway, admin } = await startPod(t, await databaseFor(t), { FLEETLINE_POD_NAME: 'pod-1' })
  for (const door of [gateway, admin])
    for (const [method, path] of [
      ['GET', '/'],
      ['GET', '/page.js'],
      ['GET', '/dev/scene'],
      ['POST', '/dev/pods/pod-1/kill'],
      ['POST', '/dev/pods/pod-1/pause'],
      ['POST', '/dev/pods/pod-1/restart'],
      ['POST', '/dev/chaos/on'],
      ['GET', '/devices/laptop/v1/sessions'],
    ] as const)
      assert.equal((await fetch(`${door}${path}`, { method })).status, 404, `${method} ${path}`)
  assert.equal((await fetch(`${admin}/readyz`)).status, 200)
})

test('a pod that cannot start prints why, and exits with the code of that kind of failure', async (t) => {
  const { admin } = await startPod(t, await databaseFor(t))
  const empty = await databaseFor(t, 'template1')
  const none = join(import.meta.dirname, '../support/clock.ts')
  type Case = readonly [env: Record<string, string>, code: number, text: RegExp, app?: string]
  const cases: readonly Case[] = [
    [{}, 2, /^fleetline: The app missing\.ts does not exist: correct the path$/m, 'missing.ts'],
    [{}, 2, /clock.ts exports no task, no machine and no agent: write export const/, none],
    [{ DATABASE_URL: empty, ...ANY_PORTS }, 4, /Run fleetline migrate up/],
    [
      {
        DATABASE_URL: await databaseFor(t),
        ...ANY_PORTS,
        ...NO_KEYS,
        FLEETLINE_OPERATOR_PORT: new URL(admin).port,
      },
      2,
      /Port \d+ of 127.0.0.1 is in use/,
    ],
    [
      { DATABASE_URL: 'postgres://u:sesame@127.0.0.1:1/none', ...ANY_PORTS },
      5,
      /PostgreSQL at 127.0.0.1:1\/none does not answer: .*ECONNREFUSED/,
    ],
    [
      { DATABASE_URL: await databaseFor(t), ...ANY_PORTS, FLEETLINE_HOST: '0.0.0.0' },
      2,
      /authentication: the pod listens on 0\.0\.0\.0, and there is no live API key[^]*--allow-insecure authentication,fsync/,
    ],
    [
      { DATABASE_URL: `${empty}?sslrootcert=/nowhere/ca.pem`, ...ANY_PORTS },
      2,
      /DATABASE_URL names a file that does not exist: sslrootcert=\/nowhere\/ca\.pem/,
    ],
    [{ DATABASE_URL: await asStranger(t), ...ANY_PORTS }, 4, /permission denied.* it prints the grants/],
    [
      { DATABASE_URL: await asStranger(t, READS), ...ANY_PORTS, FLEETLINE_ALLOW_INSECURE: OF_CLUSTER },
      4,
      /permission denied for table \w+\. Run fleetline doctor: it prints the grants/,
    ],
    [{ FLEETLINE_PROT: '1' }, 2, /did you mean FLEETLINE_PORT\?/],
  ]
  for (const [env, code, text, app] of cases) {
    const program = runCli(t, ['start', ...(app === undefined ? [] : [app])], env)
    await eventually(() => assert.ok(program.hasEnded()), { what: 'it to end', details: program.output })
    assert.equal((await program.ended).code, code, program.output())
    assert.match(program.output(), text)
    assert.doesNotMatch(program.output(), /sesame/)
  }
})

const READS = (role: string) =>
  `grant usage on schema fleetline to ${role}; grant select on all tables in schema fleetline to ${role}`

/** The URL of a database with a schema, as a role without rights, but for those that are granted. */
async function asStranger(t: TestContext, grants?: (role: string) => string): Promise<string> {
  const role = `r_${randomBytes(6).toString('hex')}`
  await runAsOwner(`create role ${role} login`)
  atEnd(t, () => runAsOwner(`drop role ${role}`))
  const url = await databaseFor(t)
  if (grants)
    valueOf(await (await openDatabase(t, url)).transaction((query) => query(grants(role))), 'granted')
  return url.replace('//postgres@', `//${role}@`)
}
