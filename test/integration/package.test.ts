// What a user installs, built and packed as it would be published.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test, type TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { atEnd } from '../../packages/server/test/support/cleanup.ts'
import { REMOVAL, startFleet } from '../../packages/server/test/support/clone.ts'
import { databaseFor } from '../../packages/server/test/support/database.ts'
import { ANSWERS, TEMPLATE_NAMES } from '../support/templates.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = ['index.html', 'page.css', 'page.js']
const tarballs = mkdtempSync(join(tmpdir(), 'fleetline-tarballs-'))
after(() => rmSync(tarballs, { recursive: true, force: true }))

execFileSync(process.execPath, [join(ROOT, 'scripts/build.ts'), '--pack', tarballs], { stdio: 'pipe' })

function tar(...words: string[]): string {
  return execFileSync('tar', words, { cwd: tarballs, encoding: 'utf8' })
}

/** One .js and one .d.ts for every source, the page, and nothing else built. */
function builtFrom(folder: string): string[] {
  const sources = globSync('**/*.ts', { cwd: join(ROOT, folder, 'src') })
  const page = folder === 'packages/server' ? PAGE.map((name) => `dist/page/${name}`) : []
  return [
    ...page,
    ...sources.flatMap((path) => ['.js', '.d.ts'].map((end) => `dist/${path.replace(/\.ts$/, end)}`)),
  ]
}

/** What a package contains besides its code. */
const READ: Readonly<Record<string, () => readonly string[]>> = {
  'packages/server': () => [
    'CHANGELOG.md',
    'llms.txt',
    'skills/fleetline/SKILL.md',
    ...globSync('docs/**/*.md', { cwd: ROOT }),
  ],
  'packages/create': () => [
    ...globSync('templates/*/*.*', { cwd: join(ROOT, 'packages/create') }),
    ...['chat', 'queue', 'machine'].map((name) => `templates/${name}/_gitignore`),
    ...['index.html', 'vite.config.ts', 'tsconfig.json'].map((name) => `templates/chat/${name}`),
    ...globSync('src/*', { cwd: join(ROOT, 'examples/use-chat') }).map((path) => `templates/chat/${path}`),
  ],
}

for (const [tarball, folder] of [
  ['fleetline-0.1.0.tgz', 'packages/server'],
  ['fleetline-client-0.1.0.tgz', 'packages/client'],
  ['fleetline-protocol-0.1.0.tgz', 'packages/protocol'],
  ['create-fleetline-0.1.0.tgz', 'packages/create'],
] as const) {
  test(`${tarball} contains what was built and what its users read, and neither sources nor tests`, () => {
    const migrations = globSync('migrations/*.sql', { cwd: join(ROOT, folder) })
    const bin = globSync('bin/*', { cwd: join(ROOT, folder) })
    const expected = new Set([
      'LICENSE',
      'README.md',
      'package.json',
      ...bin,
      ...builtFrom(folder),
      ...migrations,
      ...(READ[folder]?.() ?? []),
    ])
    const listed = tar('tzf', tarball).trimEnd().split('\n')
    assert.deepEqual(new Set(listed.map((path) => path.replace(/^package\//, ''))), expected)
    assert.doesNotMatch(tar('xzOf', tarball, 'package/package.json'), /fleetline-source/)
  })
}

/** The packages as npm would install them, with only the dependencies that their manifests name. */
function install(): string {
  const modules = join(tarballs, 'node_modules')
  for (const [tarball, name] of [
    ['fleetline-0.1.0.tgz', 'fleetline'],
    ['fleetline-client-0.1.0.tgz', '@fleetline/client'],
    ['fleetline-protocol-0.1.0.tgz', '@fleetline/protocol'],
    ['create-fleetline-0.1.0.tgz', 'create-fleetline'],
  ] as const) {
    mkdirSync(join(modules, name), { recursive: true })
    tar('xzf', tarball, '--strip-components=1', '-C', join(modules, name))
  }
  const { dependencies } = manifestIn(join(modules, 'fleetline'))
  for (const name of Object.keys(dependencies).filter((name) => name !== '@fleetline/protocol'))
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  return modules
}

type Manifest = {
  readonly dependencies: Readonly<Record<string, string>>
  readonly bin: { readonly fleetline: string }
  readonly engines: { readonly node: string }
}
function manifestIn(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

const modules = install()
const CREATE = join(modules, 'create-fleetline/bin/create-fleetline.js')
const run = (main: string, ...words: string[]) =>
  execFileSync(process.execPath, [main, ...words], { encoding: 'utf8', cwd: tarballs })

test('publint and attw find nothing in the packages', () => {
  const all = globSync('*.tgz', { cwd: tarballs }).map((name) => join(tarballs, name))
  assert.equal(all.length, 4)
  const script = join(ROOT, 'scripts/lint-packages.ts')
  assert.equal(execFileSync(process.execPath, [script, ...all], { encoding: 'utf8' }), '')
})

test('all packages have one version', () => {
  const versions = globSync('packages/*/package.json', { cwd: ROOT }).map(
    (path) => (JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as { version: string }).version,
  )
  assert.equal(new Set(versions).size, 1, versions.join())
})

test('the installed command runs with only the dependencies that its manifest names', () => {
  const { bin } = manifestIn(join(modules, 'fleetline'))
  assert.equal(run(join(modules, 'fleetline', bin.fleetline), '--version'), '0.1.0\n')
  assert.equal(run(join(ROOT, 'packages/server', bin.fleetline), '--version'), '0.1.0\n')
  assert.match(run('-e', "import('fleetline').then((entry) => console.log(Object.keys(entry)))"), /createPod/)
  const files = join(modules, 'fleetline/dist/cli/dev/page/files.js')
  const read = `const { readPageFile } = await import('${files}'); console.log(String(await readPageFile('page.js')))`
  assert.ok(run('--input-type=module', '-e', read).includes('/dev/scene'))
})

test('the least version of Node.js in the command is that of the manifest', () => {
  const folder = join(modules, 'fleetline')
  const { bin, engines } = manifestIn(folder)
  const [, major, minor] = /LEAST = \[(\d+), (\d+)\]/.exec(readFileSync(join(folder, bin.fleetline), 'utf8'))!
  assert.equal(`>=${major}.${minor}`, engines.node)
})

/** Makes the types of a package of this clone visible, as if it were installed. */
function addTypes(name: string): void {
  mkdirSync(join(modules, '@types'), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules/@types', name), join(modules, '@types', name))
}

function assertCompiles(file: string, text: string, more: object = {}): void {
  writeFileSync(join(tarballs, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(tarballs, file), text)
  const compilerOptions = { strict: true, target: 'es2024', module: 'nodenext', noEmit: true, ...more }
  writeFileSync(join(tarballs, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }))
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const { status, stdout } = spawnSync(tsc, ['-p', tarballs], { encoding: 'utf8' })
  assert.equal(status, 0, stdout)
}

test('a program compiles against the installed packages without skipLibCheck', () => {
  addTypes('node')
  assertCompiles('program.ts', PROGRAM, { types: ['node'] }) // without React
})

test('a React page compiles against the installed client without skipLibCheck', () => {
  addTypes('react')
  assertCompiles('page.tsx', PAGE_OF_REACT, { types: [], jsx: 'react-jsx' })
})

const PROGRAM = `import { createClient } from '@fleetline/client'
import { toExternalStore, toThreadList } from '@fleetline/client/assistant-ui'
import { indexedDbOutbox } from '@fleetline/client/indexeddb'
import { agent, createPod, machine, task } from 'fleetline'
import { verify } from 'fleetline/agent'

const greet = task('greet', ({ input }) => \`Hello, \${String(input)}!\`)
export const pod = createPod({ port: 0 }, { tasks: [greet] })
export const { seq } = await pod.sessions.send('trip', 'hello')
export const { turn } = await createClient({ url: 'http://localhost:4400' }).session('trip').send('hi').sent
export const keeping = () => createClient({ outbox: indexedDbOutbox({ user: 'ada' }) })
export const all = [agent, machine, toExternalStore, toThreadList, verify]
`

const PAGE_OF_REACT = `import { createClient, type Message } from '@fleetline/client'
import { FleetlineProvider, useClient, useConnection, useInbox, useSession } from '@fleetline/client/react'
import type { SessionView } from '@fleetline/client/react'

const client = createClient({ url: 'http://localhost:4400' })
const Row = ({ message }: { message: Message }) => <li>{message.delivery}</li>
function Chat({ id }: { id: string }) {
  const { messages, send, stop, loadOlder, hasOlder }: SessionView = useSession(id, { tail: 20 })
  const { sessions, unreadTotal, loadMore } = useInbox({ show: 'unread' })
  const shown: readonly [string, number] = [useConnection(), unreadTotal + sessions.length]
  useClient().close satisfies () => void
  return (
    <section onClick={() => void (hasOlder ? loadOlder() : loadMore())}>
      {messages.map((message) => <Row key={message.id} message={message} />)}
      <button onClick={() => send('hi').sent.catch(() => undefined)}>{shown}</button>
      <button onClick={() => void stop().then(({ stopped }) => stopped)}>Stop</button>
    </section>
  )
}
export const page = <FleetlineProvider client={client}><Chat id="trip" /></FleetlineProvider>
// @ts-expect-error -- the client is missing
export const wrong = <FleetlineProvider />
`

for (const [entry, kb] of [
  ['index.js', 14],
  ['assistant-ui.js', 3],
  ['indexeddb.js', 2],
  ['react.js', 4],
] as const)
  test(`${entry} of the client, with its dependencies but React, bundled and minified, takes less than ${kb} KB of gzip`, async (t) => {
    const { outputFiles } = await build({
      entryPoints: [join(ROOT, 'packages/client/dist', entry)],
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2024',
      external: ['react', './stream.js', './inbox.js'], // loaded if sockets cannot be used, and with an inbox
      write: false,
    })
    const { length } = gzipSync(outputFiles[0]!.contents)
    t.diagnostic(`${length} bytes`)
    assert.ok(length < kb * 1024, `${length} bytes`)
  })

test('the hooks stay marked as code of the browser, for frameworks with server components', () => {
  assert.match(tar('xzOf', 'fleetline-client-0.1.0.tgz', 'package/dist/react.js'), /^'use client'/)
})

/** Makes an app as `npm create fleetline` does. Instead of an install, it gets the packages of this file. */
function createApp(t: TestContext, template: string): string {
  const home = mkdtempSync(join(tmpdir(), 'fleetline-created-'))
  chmodSync(home, 0o755)
  atEnd(t, () => rmSync(home, REMOVAL))
  const said = execFileSync(process.execPath, [CREATE, 'my-app', '--template', template], {
    cwd: home,
    encoding: 'utf8',
  })
  assert.match(said, /cd my-app\n {2}npm install\n {2}npm run dev/)
  const folder = join(home, 'my-app')
  symlinkSync(modules, join(folder, 'node_modules'))
  return folder
}

for (const name of ['ai', '@ai-sdk']) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
mkdirSync(join(modules, '.bin'))
symlinkSync(join(modules, 'fleetline/bin/fleetline.js'), join(modules, '.bin/fleetline'))
symlinkSync(join(ROOT, 'node_modules/node/bin/node'), join(modules, '.bin/node'))

for (const template of TEMPLATE_NAMES)
  test(`npm create fleetline -- --template ${template}: the app starts and answers`, async (t) => {
    const folder = createApp(t, template)
    const { name, dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
      readonly name: string
      readonly dependencies: Readonly<Record<string, string>>
    }
    assert.deepEqual([name, dependencies['fleetline']], ['my-app', '^0.1.0'])
    assert.match(readFileSync(join(folder, '.gitignore'), 'utf8'), /^node_modules\/$/m)
    if (template !== 'chat') {
      const tsc = join(ROOT, 'node_modules/.bin/tsc')
      const { status, stdout } = spawnSync(tsc, ['-p', folder], { encoding: 'utf8' })
      assert.equal(status, 0, stdout)
    }
    const command = `DATABASE_URL='${await databaseFor(t)}' npm run dev -- --pods 1`
    const fleet = await startFleet(t, command, folder)
    await ANSWERS[template]({
      folder,
      api: `http://localhost:${fleet.api}`,
      operator: `http://localhost:${fleet.operator}`,
    })
    assert.equal(await fleet.stop(), 0, fleet.output())
  })

test('create-fleetline overwrites nothing, and says what to type instead', (t) => {
  const folder = createApp(t, 'queue')
  const create = (...words: string[]) => {
    const { status, stderr } = spawnSync(process.execPath, [CREATE, ...words], {
      cwd: folder,
      encoding: 'utf8',
    })
    return [status, stderr]
  }
  assert.deepEqual(create('.', '--template', 'chat'), [
    1,
    `create-fleetline: ${realpathSync(folder)} is not empty: name another folder\n`,
  ])
  assert.deepEqual(create('x', '--template', 'blog'), [
    2,
    'create-fleetline: there is no template blog: choose chat, queue, machine\n',
  ])
  assert.match(create('x', '--nonsense').join(' '), /^2 .*Unknown option '--nonsense'.*See --help/)
  assert.match(create('x', 'y').join(' '), /^2 .*one FOLDER, not 2: x y/)
})
