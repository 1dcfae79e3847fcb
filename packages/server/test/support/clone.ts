// A clone in which a test works like a newcomer. Every command runs as written, except for the ports: the usual ones may be in
// use here. The clone is a directory of links to this one. PostgreSQL may run as another user, who can enter such a directory.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { withoutSettings } from './program.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PATIENCE_MS = 120_000 // PostgreSQL creates its data on a disk that may be busy

export const CLONE_ENV: NodeJS.ProcessEnv = {
  ...withoutSettings(process.env),
  FLEETLINE_PORT: '0',
  FLEETLINE_OPERATOR_PORT: '0',
}

/** Retries, because PostgreSQL runs on and writes for a moment after its fleet was killed. */
export const REMOVAL = { recursive: true, force: true, maxRetries: 10, retryDelay: 200 } as const

export function cloneFor(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'fleetline-readme-'))
  chmodSync(path, 0o755)
  atEnd(t, () => rmSync(path, REMOVAL))
  const entries = readdirSync(ROOT).filter((name) => name !== '.git' && name !== '.fleetline')
  for (const name of entries) symlinkSync(join(ROOT, name), join(path, name))
  return path
}

/** Resolves when the fleet is ready, with its ports. */
export async function startFleet(t: TestContext, command: string, cwd: string, more: NodeJS.ProcessEnv = {}) {
  const env = { ...CLONE_ENV, ...more }
  const child = spawn('sh', ['-c', command], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const pipe of [child.stdout, child.stderr])
    pipe.setEncoding('utf8').on('data', (text: string) => (output += text))
  const closed = once(child, 'close')
  // npm does not pass signals on. The lock file contains the id of the fleet's own process.
  const signal = (name: NodeJS.Signals) =>
    process.kill(Number(readFileSync(join(cwd, '.fleetline/lock'))), name)
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  atEnd(t, async () => {
    if (hasEnded()) return
    try {
      signal('SIGKILL')
      await closed
    } catch {
      child.kill('SIGKILL') // no lock file yet; other processes end with the test file's process group
    }
  })
  const wait = { patienceMs: PATIENCE_MS, details: () => output }
  await eventually(() => assert.match(output, /fleet +ready/), { what: 'the fleet', ...wait })
  const portOf = (name: string) => new RegExp(`${name} +http://localhost:(\\d+)`).exec(output)![1]!
  return {
    api: portOf('api'),
    operator: portOf('operator'),
    page: portOf('page'),
    output: () => output,
    /** Resolves to the exit code. */
    stop: async () => {
      signal('SIGINT')
      await eventually(() => assert.ok(hasEnded()), { what: 'the fleet to end', ...wait })
      return child.exitCode
    },
  }
}
