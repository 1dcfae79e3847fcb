// What a user installs, built and packed as it would be published.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
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
  test(`${tarball} holds what was built, the migrations, and neither sources nor tests`, () => {
    const migrations = globSync('migrations/*.sql', { cwd: join(ROOT, folder) })
    const expected = new Set(['LICENSE', 'package.json', ...builtFrom(folder), ...migrations])
    const listed = tar('tzf', tarball).trimEnd().split('\n')
    assert.deepEqual(new Set(listed.map((path) => path.replace(/^package\//, ''))), expected)
    assert.doesNotMatch(tar('xzOf', tarball, 'package/package.json'), /fleetline-source/)
  })
}

test('installed, with what its manifest names and nothing else, the command answers', () => {
  const modules = join(tarballs, 'node_modules')
  for (const [tarball, name] of [
    ['fleetline-0.0.0.tgz', 'fleetline'],
    ['fleetline-client-0.0.0.tgz', '@fleetline/client'],
    ['fleetline-protocol-0.0.0.tgz', '@fleetline/protocol'],
  ] as const) {
    mkdirSync(join(modules, name), { recursive: true })
    tar('xzf', tarball, '--strip-components=1', '-C', join(modules, name))
  }
  const manifest = readFileSync(join(modules, 'fleetline/package.json'), 'utf8')
  const { dependencies } = JSON.parse(manifest) as { dependencies: Record<string, string> }
  for (const name of Object.keys(dependencies).filter((name) => name !== '@fleetline/protocol'))
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  const run = (main: string, ...words: string[]) =>
    execFileSync(process.execPath, [main, ...words], { encoding: 'utf8', cwd: tarballs })
  assert.equal(run(join(modules, 'fleetline/dist/cli/main.js'), '--version'), '0.0.0\n')
  assert.match(run('-e', "import('fleetline').then((entry) => console.log(Object.keys(entry)))"), /createPod/)
  assert.equal(run(join(ROOT, 'packages/server/dist/cli/main.js'), '--version'), '0.0.0\n')
  const files = join(modules, 'fleetline/dist/cli/dev/page/files.js')
  const read = `const { readPageFile } = await import('${files}'); console.log(String(await readPageFile('page.js')))`
  assert.ok(run('--input-type=module', '-e', read).includes('/dev/scene'))
})

test('bundled and minified, the client and what it needs take less than 9 KB of gzip', async (t) => {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, 'packages/client/dist/index.js')],
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2024',
    write: false,
  })
  const { length } = gzipSync(outputFiles[0]!.contents)
  t.diagnostic(`${length} bytes`)
  assert.ok(length < 9_216, `${length} bytes`)
})
