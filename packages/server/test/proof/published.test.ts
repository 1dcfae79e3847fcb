// What a newcomer types once the packages are published: `npm create fleetline`, an install by npm and by pnpm, and the app's own scripts. The
// packages come from a registry on this machine. Also on a machine without PostgreSQL, as root and as another user.
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { before, test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { ANSWERS, TEMPLATE_NAMES } from '../../../../test/support/templates.ts'
import { atEnd } from '../support/cleanup.ts'
import { CLONE_ENV, REMOVAL, startFleet } from '../support/clone.ts'
import { startRegistry } from '../support/registry.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PNPM = 'pnpm@12.21.0'
const PATH = `${dirname(process.execPath)}:${process.env['PATH']}`

const tarballs = mkdtempSync(join(tmpdir(), 'fleetline-tarballs-'))
before(() => {
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.ts'), '--pack', tarballs], { stdio: 'pipe' })
})
process.once('exit', () => rmSync(tarballs, REMOVAL))

function emptyFolder(t: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), 'fleetline-newcomer-'))
  chmodSync(home, 0o755) // PostgreSQL may run as another user
  atEnd(t, () => rmSync(home, REMOVAL))
  return home
}

/** An empty folder in which npm and pnpm use the registry with our packages. */
async function openHome(t: TestContext) {
  const home = emptyFolder(t)
  const registry = await startRegistry(t, tarballs)
  writeFileSync(join(home, '.npmrc'), `registry=${registry}\n`) // pnpm does not read npm's variables
  const env = {
    ...CLONE_ENV,
    PATH,
    npm_config_registry: registry,
    npm_config_cache: join(home, '.npm'), // no packages of an earlier run under the same version
    npm_config_store_dir: join(home, '.pnpm'),
    npm_config_yes: 'true',
  }
  const run = async (command: string, cwd = home) =>
    (await promisify(execFile)('sh', ['-ec', command], { cwd, env })).stdout
  return { home, env, run }
}

for (const template of TEMPLATE_NAMES)
  test(`npm create fleetline: the template ${template} installs, passes its own check, and answers`, async (t) => {
    const { home, env, run } = await openHome(t)
    const startMs = performance.now()
    await run(`npm create fleetline my-app -- --template ${template}`)
    const folder = join(home, 'my-app')
    await run('npm install --no-audit --no-fund', folder)
    const fleet = await startFleet(t, 'npm run dev', folder, env)
    await ANSWERS[template]({
      folder,
      api: `http://localhost:${fleet.api}`,
      operator: `http://localhost:${fleet.operator}`,
    })
    t.diagnostic(`figure ${template}_answers_s ${(performance.now() - startMs) / 1000}`)
    assert.equal(await fleet.stop(), 0, fleet.output())
    await run('npm run check', folder)
    if (template === 'chat') await run('npm run build', folder)
  })

test('the chat of the template asks a model if there is a key', async (t) => {
  const { home, env, run } = await openHome(t)
  await run('npm create fleetline my-app -- --template chat')
  const folder = join(home, 'my-app')
  await run('npm install --no-audit --no-fund', folder)
  const model = await startModel(t)
  const more = { ...env, OPENAI_API_KEY: 'test', OPENAI_BASE_URL: model }
  const fleet = await startFleet(t, 'npm run dev', folder, more)
  const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Hi' }] }
  const answer = await fetch(`http://localhost:${fleet.api}/v1/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'trip', message }),
  })
  assert.match(await answer.text(), /"delta":"A model says hello\."[^]*\[DONE\]/)
  assert.equal(await fleet.stop(), 0, fleet.output())
})

/** Speaks as OpenAI's chat completions do. */
async function startModel(t: TestContext): Promise<string> {
  const server = createServer((_, response) => {
    const piece = (delta: object, finish: string | null) =>
      `data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 0, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(
      `${piece({ role: 'assistant', content: 'A model says hello.' }, null)}${piece({}, 'stop')}data: [DONE]\n\n`,
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

test('pnpm installs the packages, and a bundler takes them as ES modules', async (t) => {
  const { home, run } = await openHome(t)
  writeFileSync(join(home, 'package.json'), '{ "private": true, "type": "module" }')
  await run(`npx ${PNPM} add fleetline @fleetline/client @fleetline/protocol`)
  assert.match(await run('./node_modules/.bin/fleetline --version'), /^\d+\.\d+\.\d+\n$/)
  const { outputFiles } = await build({
    stdin: {
      contents: `import { createClient } from '@fleetline/client'\nimport { parseId } from '@fleetline/protocol'\nconsole.log(createClient, parseId)`,
      resolveDir: home,
    },
    bundle: true,
    format: 'esm',
    platform: 'browser',
    splitting: false,
    write: false,
  })
  assert.match(outputFiles[0]!.text, /createClient/)
  const program = `import { agent, createPod, task } from 'fleetline'; console.log(typeof createPod, typeof agent, typeof task)`
  writeFileSync(join(home, 'program.js'), program)
  assert.equal(await run(`${process.execPath} program.js`), 'function function function\n')
})

/** Hides the installed PostgreSQL from a command, in a view of the file system that only this command has. */
const HIDDEN = 'mount -t tmpfs none /usr/lib/postgresql'
const AS_ROOT = `unshare -m sh -ec '${HIDDEN}; exec sh -c "$0"'`
const AS_NOBODY = `unshare -m sh -ec '${HIDDEN}; exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$0"'`
const isRoot = process.getuid?.() === 0

for (const [name, prefix] of [
  ['root', AS_ROOT],
  ['another user', AS_NOBODY],
] as const)
  test(
    `without PostgreSQL, fleetline dev fetches it, as ${name}; the second start fetches nothing`,
    { skip: !isRoot },
    async (t) => {
      const { home, env, run } = await openHome(t)
      writeFileSync(join(home, 'package.json'), '{ "private": true }')
      await run('npm install --no-audit --no-fund fleetline')
      const work = emptyFolder(t)
      if (prefix === AS_NOBODY) chownSync(work, 65_534, 65_534)
      const cache = join(work, 'cache')
      const more = { ...env, npm_config_cache: join(work, 'npm'), HOME: work, XDG_CACHE_HOME: cache }
      const command = `${prefix} '${join(home, 'node_modules/.bin/fleetline')} dev --no-model'`
      if (prefix === AS_ROOT) rmSync('/var/lib/fleetline/postgresql-18.4.0-beta.17', REMOVAL)
      const startMs = performance.now()
      const first = await startFleet(t, command, work, more)
      t.diagnostic(`figure fetched_ready_s ${(performance.now() - startMs) / 1000}`)
      assert.match(first.output(), /PostgreSQL is not installed here: fetching it with npm, once/)
      assert.match(first.output(), /postgres +18\.\d/)
      assert.equal(await first.stop(), 0, first.output())
      const again = await startFleet(t, command, work, more)
      assert.doesNotMatch(again.output(), /fetching/)
      assert.equal(await again.stop(), 0, again.output())
      assert.ok(readFileSync(join(work, '.fleetline/postgres.log'), 'utf8').length > 0)
    },
  )
