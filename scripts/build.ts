// npm run build [-- --pack FOLDER]: builds each package's dist, and packs their tarballs. A packed manifest has no condition
// `fleetline-source`, because the package contains no sources.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { bundlePage } from '../packages/page/bundle.ts'

const ROOT = join(import.meta.dirname, '..')
const PACKAGES = ['protocol', 'client', 'server', 'create'] // in the order of their imports
/** What a package contains that stands elsewhere in this repository: from where, to where. */
const COPIED: Readonly<Record<string, readonly (readonly [from: string, to: string])[]>> = {
  server: [
    ['docs', 'docs'],
    ['llms.txt', 'llms.txt'],
    ['CHANGELOG.md', 'CHANGELOG.md'],
  ],
  create: ['index.html', 'vite.config.ts', 'tsconfig.json', 'src'].map((name) => [
    `examples/use-chat/${name}`,
    `templates/chat/${name}`,
  ]),
}
const PICTURES = join(ROOT, 'docs/pictures') // they are large, and a package is read by programs

type Manifest = {
  readonly files: readonly string[]
  readonly exports?: Record<string, Record<string, string>>
  readonly imports?: Record<string, Record<string, string>>
}

function build(name: string): void {
  const folder = join(ROOT, 'packages', name)
  rmSync(join(folder, 'dist'), { recursive: true, force: true })
  run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', join(folder, 'tsconfig.build.json')])
}

/** Builds into the server's dist: installing the server brings the page, but not what the page is made from. */
function buildPage(): void {
  const folder = join(ROOT, 'packages/server/dist/page')
  mkdirSync(folder)
  for (const [name, content] of Object.entries(bundlePage())) writeFileSync(join(folder, name), content)
}

function pack(name: string, into: string): void {
  const folder = join(ROOT, 'packages', name)
  const stage = mkdtempSync(join(tmpdir(), 'fleetline-pack-'))
  try {
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
    const entries = [manifest.exports ?? {}, manifest.imports ?? {}].flatMap((table) => Object.values(table))
    for (const entry of entries) delete entry['fleetline-source']
    writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    cpSync(join(ROOT, 'LICENSE'), join(stage, 'LICENSE'))
    cpSync(join(folder, 'README.md'), join(stage, 'README.md'))
    const copied = COPIED[name] ?? []
    for (const path of manifest.files.filter((path) => !copied.some(([, to]) => to === path)))
      cpSync(join(folder, path), join(stage, path), { recursive: true })
    for (const [from, to] of copied)
      cpSync(join(ROOT, from), join(stage, to), { recursive: true, filter: (path) => path !== PICTURES })
    run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', resolve(into)], stage)
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

function run(command: string, args: readonly string[], cwd: string = ROOT): void {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw error ?? new Error(`${command} ended with ${status}`)
}

const { values } = parseArgs({ options: { pack: { type: 'string' } } })
for (const name of PACKAGES) build(name)
buildPage()
if (values.pack !== undefined) for (const name of PACKAGES) pack(name, values.pack)
