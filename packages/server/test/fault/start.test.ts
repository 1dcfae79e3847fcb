import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { runCli, type Program } from '../support/program.ts'

const ANY_PORTS = { FLEETLINE_PORT: '0', FLEETLINE_OPERATOR_PORT: '0' }

type Line = { readonly msg: string; readonly service?: string; readonly port?: number }

function linesOf(program: Program): Line[] {
  return program
    .output()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
}

async function startReady(t: TestContext, url: string) {
  const program = runCli(t, ['start'], { DATABASE_URL: url, ...ANY_PORTS })
  const lines = await eventually(
    () => {
      const said = linesOf(program)
      assert.ok(said.some(({ msg }) => msg === 'ready'))
      return said
    },
    { what: 'the pod to be ready', details: program.output },
  )
  const port = lines.find(({ msg, service }) => msg === 'listening' && service === 'admin')!.port!
  return { program, port }
}

test('asked to stop, a pod stops in order and exits 0', async (t) => {
  const { program, port } = await startReady(t, await databaseFor(t))
  assert.equal((await fetch(`http://127.0.0.1:${port}/readyz`)).status, 200)
  program.kill('SIGTERM')
  await eventually(() => assert.ok(program.hasEnded()), { what: 'the pod to end', details: program.output })
  assert.deepEqual(await program.ended, { code: 0, signal: null })
  assert.deepEqual(
    linesOf(program)
      .map(({ msg }) => msg)
      .slice(-3),
    ['ready', 'stopping', 'stopped'],
  )
})

test('what keeps a pod from starting has one sentence and an exit code of its kind', async (t) => {
  const { port } = await startReady(t, await databaseFor(t))
  const empty = await databaseFor(t, 'template1')
  const cases: readonly (readonly [env: Record<string, string>, code: number, text: RegExp])[] = [
    [{ DATABASE_URL: empty, ...ANY_PORTS }, 4, /run fleetline migrate up/],
    [
      { DATABASE_URL: await databaseFor(t), ...ANY_PORTS, FLEETLINE_OPERATOR_PORT: String(port) },
      4,
      /Port \d+ of 127.0.0.1 is taken/,
    ],
    [
      { DATABASE_URL: 'postgres://u:secret@127.0.0.1:1/none', ...ANY_PORTS },
      5,
      /does not answer at 127.0.0.1:1/,
    ],
    [{ FLEETLINE_HOST: '0.0.0.0' }, 2, /answers on its own machine alone/],
    [{ FLEETLINE_PROT: '1' }, 2, /did you mean FLEETLINE_PORT\?/],
  ]
  for (const [env, code, text] of cases) {
    const program = runCli(t, ['start'], env)
    await eventually(() => assert.ok(program.hasEnded()), { what: 'it to end', details: program.output })
    assert.equal((await program.ended).code, code, program.output())
    assert.match(program.output(), text)
    assert.ok(!program.output().includes('secret'))
  }
})
