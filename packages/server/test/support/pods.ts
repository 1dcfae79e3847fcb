// Pods as OS processes. They listen on free ports.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { Scope } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { OF_CLUSTER } from './pod.ts'
import { runCli, type Program } from './program.ts'

export const APP: string = join(import.meta.dirname, 'app.ts')
export const ANY_PORTS = { FLEETLINE_PORT: '0', FLEETLINE_OPERATOR_PORT: '0' }
/** Callers of this machine need no key. */
export const NO_KEYS = { FLEETLINE_ALLOW_INSECURE: `authentication,${OF_CLUSTER}` }

/** `gateway` and `admin` are URLs without a slash at the end. */
export type RunningPod = { readonly program: Program; readonly gateway: string; readonly admin: string }

type Line = { readonly msg: string; readonly service?: string; readonly port?: number }

export function linesOf(program: Program): Line[] {
  return program
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
}

// Limits so long that even a busy machine stays within them. No pod counts as dead unless a test makes its beat old.
const PATIENCE = {
  FLEETLINE_TRANSACTION_DEADLINE_MS: '120000',
  FLEETLINE_IDLE_TRANSACTION_MS: '120000',
  FLEETLINE_REQUEST_TIMEOUT_MS: '120000',
  FLEETLINE_UNREADY_MS: '0',
  FLEETLINE_STOP_MS: '120000',
  FLEETLINE_TTL_MS: '60000',
  FLEETLINE_BEAT_MS: '200',
}

/** Resolves when the pod is ready. */
export async function startPod(
  t: Scope,
  url: string,
  env: Readonly<Record<string, string>> = {},
  app?: string,
): Promise<RunningPod> {
  const program = runCli(t, ['start', ...(app === undefined ? [] : [app])], {
    DATABASE_URL: url,
    ...ANY_PORTS,
    ...NO_KEYS,
    ...PATIENCE,
    ...env,
  })
  const lines = await eventually(
    () => {
      const said = linesOf(program)
      assert.ok(said.some(({ msg }) => msg === 'ready'))
      return said
    },
    { what: 'the pod to be ready', details: program.output },
  )
  const addressOf = (door: string) =>
    `http://127.0.0.1:${lines.find(({ msg, service }) => msg === 'listening' && service === door)!.port!}`
  return { program, gateway: addressOf('gateway'), admin: addressOf('admin') }
}
