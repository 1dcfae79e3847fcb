// What a user installs, built and packed as it would be published.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const ROOT = join(import.meta.dirname, '..')
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

for (const [tarball, folder] of [
  ['fleetline-0.0.0.tgz', 'packages/server'],
  ['fleetline-client-0.0.0.tgz', 'packages/client'],
  ['fleetline-protocol-0.0.0.tgz', 'packages/protocol'],
] as const) {
  test(`${tarball} contains what was built and the migrations, and neither sources nor tests`, () => {
    const migrations = globSync('migrations/*.sql', { cwd: join(ROOT, folder) })
    const bin = globSync('bin/*', { cwd: join(ROOT, folder) })
    const expected = new Set([
      'LICENSE',
      'README.md',
      'package.json',
      ...bin,
      ...builtFrom(folder),
      ...migrations,
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
    ['fleetline-0.0.0.tgz', 'fleetline'],
    ['fleetline-client-0.0.0.tgz', '@fleetline/client'],
    ['fleetline-protocol-0.0.0.tgz', '@fleetline/protocol'],
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
const run = (main: string, ...words: string[]) =>
  execFileSync(process.execPath, [main, ...words], { encoding: 'utf8', cwd: tarballs })

test('the installed command runs with only the dependencies that its manifest names', () => {
  const { bin } = manifestIn(join(modules, 'fleetline'))
  assert.equal(run(join(modules, 'fleetline', bin.fleetline), '--version'), '0.0.0\n')
  assert.equal(run(join(ROOT, 'packages/server', bin.fleetline), '--version'), '0.0.0\n')
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

test('a program compiles against the installed packages without skipLibCheck', () => {
  const types = join(modules, '@types')
  mkdirSync(types)
  symlinkSync(join(ROOT, 'node_modules/@types/node'), join(types, 'node'))
  writeFileSync(join(tarballs, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(tarballs, 'program.ts'), PROGRAM)
  const compilerOptions = {
    strict: true,
    target: 'es2024',
    module: 'nodenext',
    noEmit: true,
    types: ['node'],
  }
  const settings = { compilerOptions, files: ['program.ts'] }
  writeFileSync(join(tarballs, 'tsconfig.json'), JSON.stringify(settings))
  const { status, stdout } = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', tarballs], {
    encoding: 'utf8',
  })
  assert.equal(status, 0, stdout)
})

const PROGRAM = `import { createClient } from '@fleetline/client'
import { indexedDbOutbox } from '@fleetline/client/indexeddb'
import { agent, createPod, machine, task } from 'fleetline'
import { verify } from 'fleetline/agent'

const greet = task('greet', ({ input }) => \`Hello, \${String(input)}!\`)
export const pod = createPod({ port: 0 }, { tasks: [greet] })
export const { seq } = await pod.sessions.send('trip', 'hello')
export const { turn } = await createClient({ url: 'http://localhost:4400' }).session('trip').send('hi').sent
export const keeping = () => createClient({ outbox: indexedDbOutbox({ user: 'ada' }) })
export const all = [agent, machine, verify]
`

for (const [entry, kb] of [
  ['index.js', 15.5],
  ['indexeddb.js', 2],
] as const)
  test(`${entry} of the client, with its dependencies, bundled and minified, takes less than ${kb} KB of gzip`, async (t) => {
    const { outputFiles } = await build({
      entryPoints: [join(ROOT, 'packages/client/dist', entry)],
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2024',
      write: false,
    })
    const { length } = gzipSync(outputFiles[0]!.contents)
    t.diagnostic(`${length} bytes`)
    assert.ok(length < kb * 1024, `${length} bytes`)
  })
