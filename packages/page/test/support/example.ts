// An example as a reader gets it: installed from the registry in a folder of its own, with our packages as they are packed. Needs a network.
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { freePort } from '../../../server/test/support/free-port.ts'

const ROOT = join(import.meta.dirname, '../../../..')

export type Example = {
  readonly home: string
  readonly run: (command: string, ...words: string[]) => string
  /** Runs Vite with these words. Resolves to the URL of the page. */
  readonly serve: (t: TestContext, env: NodeJS.ProcessEnv, ...words: string[]) => Promise<string>
  readonly remove: () => void
}
type Versions = Readonly<Record<string, string>>

/** `versions`: of its dependencies, if they differ from those that it names. */
export function installExample(name: string, versions: Versions = {}): Example {
  const home = mkdtempSync(join(tmpdir(), `fleetline-${name}-`))
  const run = (command: string, ...words: string[]) =>
    execFileSync(command, words, { cwd: home, stdio: 'pipe', encoding: 'utf8' })
  chmodSync(home, 0o755)
  const isSource = (path: string) => !['node_modules', 'dist'].includes(basename(path))
  cpSync(join(ROOT, 'examples', name), home, { recursive: true, filter: isSource })
  const manifest = join(home, 'package.json')
  const wanted = JSON.parse(readFileSync(manifest, 'utf8')) as { dependencies: Versions }
  const dependencies = { ...wanted.dependencies, ...versions }
  writeFileSync(manifest, JSON.stringify({ ...wanted, dependencies }, null, 2))
  if ('@fleetline/client' in dependencies)
    run(process.execPath, join(ROOT, 'scripts/build.ts'), '--pack', home)
  run('npm', 'install', '--no-audit', '--no-fund')
  return {
    home,
    run,
    serve: (t, env, ...words) => serve(t, home, env, words),
    remove: () => rmSync(home, { recursive: true, force: true }),
  }
}

async function serve(
  t: TestContext,
  home: string,
  env: NodeJS.ProcessEnv,
  words: readonly string[],
): Promise<string> {
  const port = await freePort('localhost')
  const args = [join(home, 'node_modules/vite/bin/vite.js'), ...words, '--port', `${port}`, '--strictPort']
  const vite = spawn(process.execPath, args, { cwd: home, env: { ...process.env, ...env }, stdio: 'pipe' })
  let output = ''
  for (const pipe of [vite.stdout, vite.stderr])
    pipe.on('data', (text: Buffer) => (output += text.toString()))
  atEnd(t, () => vite.kill('SIGKILL'))
  const page = `http://localhost:${port}/`
  await eventually(() => fetch(page), { what: 'Vite', details: () => output })
  return page
}
