// A clone as a stranger works in it: every command as written, but for the ports, which may be taken here. It is a directory
// that links to this one: PostgreSQL, which may run as another user, can enter that.
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
const PATIENCE_MS = 120_000 // the data of a server is made on a disk that may be busy

export const CLONE_ENV: NodeJS.ProcessEnv = {
  ...withoutSettings(process.env),
  FLEETLINE_PORT: '0',
  FLEETLINE_OPERATOR_PORT: '0',
}

/** PostgreSQL outlives a fleet that was killed for a moment, and still writes. */
export const REMOVAL = { recursive: true, force: true, maxRetries: 10, retryDelay: 200 } as const

export function cloneFor(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'fleetline-readme-'))
  chmodSync(path, 0o755)
  atEnd(t, () => rmSync(path, REMOVAL))
  const entries = readdirSync(ROOT).filter((name) => name !== '.git' && name !== '.fleetline')
  for (const name of entries) symlinkSync(join(ROOT, name), join(path, name))
  return path
}

/** Answers when it is ready: on which ports. */
export async function startFleet(t: TestContext, command: string, cwd: string) {
  const child = spawn('sh', ['-c', command], { cwd, env: CLONE_ENV, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const pipe of [child.stdout, child.stderr])
    pipe.setEncoding('utf8').on('data', (text: string) => (output += text))
  const closed = once(child, 'close')
  // npm passes no signal on; the fleet's own process is in its lock.
  const signal = (name: NodeJS.Signals) =>
    process.kill(Number(readFileSync(join(cwd, '.fleetline/lock'))), name)
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  atEnd(t, async () => {
    if (hasEnded()) return
    try {
      signal('SIGKILL')
      await closed
    } catch {
      child.kill('SIGKILL') // there is no lock yet; the rest ends with this file's process group
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
    /** Answers its exit code. */
    stop: async () => {
      signal('SIGINT')
      await eventually(() => assert.ok(hasEnded()), { what: 'the fleet to end', ...wait })
      return child.exitCode
    },
  }
}
