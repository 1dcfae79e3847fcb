// Programs that a proof needs and Debian has. As root they are installed on the way; anybody else is told what to install.
import { execFileSync, spawnSync } from 'node:child_process'

/** `programs`: each with the package that brings it. */
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
  const paths = `${process.env['PATH']}:/usr/sbin:/sbin` // where servers are
  return spawnSync('sh', ['-c', `command -v ${program}`], { env: { PATH: paths } }).status === 0
}
