// Makes sure that Debian programs that a proof needs are installed. If we are root, it installs the missing ones. Otherwise it
// throws an error that says what to install.
import { execFileSync, spawnSync } from 'node:child_process'

/** `programs` maps each program to the package that contains it. */
export function needPrograms(programs: Readonly<Record<string, string>>): void {
  const missing = Object.entries(programs).filter(([program]) => !isThere(program))
  const packages = [...new Set(missing.map(([, name]) => name))]
  if (packages.length === 0) return
  if (process.getuid!() !== 0 || !isThere('apt-get'))
    throw new Error(`Not installed: apt-get install ${packages.join(' ')}`)
  const run = (...words: string[]) =>
    execFileSync('apt-get', ['-qq', ...words], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  run('update')
  run('install', '-y', '--no-install-recommends', ...packages)
}

function isThere(program: string): boolean {
  const paths = `${process.env['PATH']}:/usr/sbin:/sbin` // servers are installed in the last two
  return spawnSync('sh', ['-c', `command -v ${program}`], { env: { PATH: paths } }).status === 0
}
