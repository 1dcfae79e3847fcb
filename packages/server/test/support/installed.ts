// Installs the packed package in an empty directory, with its dependencies from the registry, as a newcomer does. This needs a
// network, so proofs and browser tests use it, but not the gate.
import { execFileSync } from 'node:child_process'
import { chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'
import { REMOVAL } from './clone.ts'

const BUILD = join(import.meta.dirname, '../../../../scripts/build.ts')

/** The command for `startFleet` in that directory. */
export const INSTALLED_DEV = `PATH="${dirname(process.execPath)}:$PATH" npx fleetline dev --no-model`

export function installedFor(t: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), 'fleetline-first-'))
  chmodSync(home, 0o755) // PostgreSQL may run as another user
  atEnd(t, () => rmSync(home, REMOVAL))
  execFileSync(process.execPath, [BUILD, '--pack', home], { stdio: 'pipe' })
  writeFileSync(join(home, 'package.json'), '{ "private": true }')
  const tarballs = globSync('*.tgz', { cwd: home }).map((path) => `./${path}`)
  execFileSync('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: home, stdio: 'pipe' })
  return home
}
