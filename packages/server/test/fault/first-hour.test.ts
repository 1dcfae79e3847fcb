// What a newcomer sees in the first hour. The tests run the programs as a person does.
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { ended, homeFor, PATIENCE_MS, ready, runDev, saidBy, type Said } from '../support/dev-fleet.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { runCli, runProgram } from '../support/program.ts'

const INDEX = join(import.meta.dirname, '../../src/index.ts')
const BIN = join(import.meta.dirname, '../../bin/fleetline.js')

function appOf(names: readonly string[]): string {
  const tasks = names.map((name) => `export const ${name} = task('${name}', fails, { attempts: 1 })`)
  return `import { task } from ${JSON.stringify(INDEX)}
function fails() { throw new Error('The printer is out of paper') }
${tasks.join('\n')}
`
}

test('a dev fleet names what its app exports, shows an exception with its stack, and loads an edited app', async (t) => {
  const home = homeFor(t)
  const app = join(home.path, 'app.ts')
  writeFileSync(app, appOf(['first']))
  const fleet = runDev(t, home, '--database-url', await databaseFor(t), '--pods', '1', 'app.ts')
  const [{ api }] = (await ready(fleet)) as [Said, ...Said[]]
  const loaded = () => saidBy(fleet).flatMap((said) => (said.message === 'loaded' ? [said.data] : []))
  assert.deepEqual(loaded(), [{ tasks: ['first'] }])

  await call('POST', `${api}/tasks`, { machine: 'first' })
  const options = { patienceMs: PATIENCE_MS, details: fleet.output }
  const isShown = () => {
    const dead = saidBy(fleet).find(({ message }) => message === 'a task is dead')
    assert.match(dead?.stack ?? '', /The printer is out of paper\n[^]*app\.ts:2/)
  }
  await eventually(isShown, { what: 'the exception', ...options })

  writeFileSync(app, 'export const n = 1\nthis is no program')
  const isRefused = () => {
    const said = saidBy(fleet)
    assert.ok(said.some(({ message }) => message?.startsWith('the app does not start')))
    assert.ok(said.some(({ reason }) => /app\.ts cannot be loaded.*app\.ts:2\)/.test(String(reason))))
  }
  await eventually(isRefused, { what: 'the broken app', ...options })

  writeFileSync(app, appOf(['first', 'second']))
  const isLoaded = () => assert.deepEqual(loaded().at(-1), { tasks: ['first', 'second'] })
  await eventually(isLoaded, { what: 'the edited app', ...options })
  fleet.kill('SIGINT')
  assert.equal(await ended(fleet), 0, fleet.output())
})

test('an app that does not exist is named before anything starts', async (t) => {
  const home = homeFor(t)
  const fleet = runDev(t, home, 'nope.ts')
  assert.equal(await ended(fleet), 2)
  assert.match(fleet.output(), /nope\.ts does not exist/)
  assert.ok(!existsSync(join(home.path, '.fleetline')))
})

test('a dev fleet that is given a database which does not answer says how to do without', async (t) => {
  const fleet = runDev(t, homeFor(t), '--database-url', 'postgres://127.0.0.1:1/none')
  assert.equal(await ended(fleet), 5)
  assert.match(
    fleet.output(),
    /PostgreSQL at 127\.0\.0\.1:1\/\S* does not answer.*unset DATABASE_URL and leave out --database-url/,
  )
})

test('a Node.js that is too old is told so in one line', async (t) => {
  const older = `data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.19.1'}})`
  const program = runProgram(t, BIN, { by: [process.execPath, '--import', older], args: ['pods', 'ls'] })
  assert.equal(await ended(program), 2)
  assert.match(program.output(), /^fleetline: needs Node\.js 24\.12 or newer, this is v[^\n]*\n$/)
})

test('a command that finds no fleet names the flag of its own URL', async (t) => {
  const env = { FLEETLINE_URL: 'http://127.0.0.1:9', FLEETLINE_OPERATOR_URL: 'http://127.0.0.1:9' }
  for (const [words, flag] of [
    [['sessions', 'ls'], '--url'],
    [['pods', 'ls'], '--operator-url'],
  ] as const) {
    const program = runCli(t, words, env)
    assert.equal(await ended(program), 5)
    assert.ok(program.output().includes(`Use ${flag} to name another`), program.output())
  }
})
