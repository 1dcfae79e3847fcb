// A dev fleet as a user runs it: a process in a directory of its own. The only settings that it gets are free ports.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { chmodSync, globSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { atEnd } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { runCli, type Program } from './program.ts'

export type Said = {
  readonly source?: string
  readonly message?: string
  readonly operator?: string
  readonly page?: string
  readonly api?: string
  readonly agent?: string
  readonly data?: unknown
  readonly stack?: string
  readonly reason?: string
}
type Home = { readonly path: string; readonly mark: string }

export const PATIENCE_MS = 120_000 // PostgreSQL creates its data on a disk that may be busy

export function homeFor(t: TestContext): Home {
  const path = mkdtempSync(join(tmpdir(), 'fleetline-dev-'))
  chmodSync(path, 0o755) // PostgreSQL may run as another user
  atEnd(t, () => rmSync(path, { recursive: true, force: true }))
  return { path, mark: `TEST_MARK=${randomUUID()}` }
}

export function envOf({ mark }: Home): Record<string, string> {
  return {
    [mark.split('=')[0]!]: mark.split('=')[1]!,
    FLEETLINE_PORT: '0',
    FLEETLINE_OPERATOR_PORT: '0',
  }
}

export function runDev(t: TestContext, home: Home, ...words: string[]): Program {
  return runCli(t, ['dev', '--json', '--no-model', ...words], envOf(home), home.path)
}

export function saidBy(program: Program): Said[] {
  const lines = program.output().split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as Said)
}

export async function ready(fleet: Program): Promise<Said[]> {
  const check = () => {
    const said = saidBy(fleet)
    assert.ok(said.some(({ source, message }) => source === 'fleet' && message === 'ready'))
    return said
  }
  return eventually(check, { what: 'the fleet to be ready', patienceMs: PATIENCE_MS, details: fleet.output })
}

export async function ended(program: Program): Promise<number | null> {
  const options = { what: 'the program to end', patienceMs: PATIENCE_MS, details: program.output }
  await eventually(() => assert.ok(program.hasEnded()), options)
  return (await program.ended).code
}

/** Finds the fleet's processes by a mark in the environment, which children inherit. Finds PostgreSQL's by working directory. */
export function processesOf({ path, mark }: Home): string[] {
  return globSync('/proc/[0-9]*').filter((process) => {
    try {
      const place = readlinkSync(`${process}/cwd`)
      return place.startsWith(path) || readFileSync(`${process}/environ`, 'latin1').includes(mark)
    } catch {
      return false // it has ended, or belongs to another user
    }
  })
}

/** Waits, because the `sleep` in a guard's loop may run for a tenth of a second after the fleet has ended. */
export async function nothingRuns(home: Home): Promise<void> {
  await eventually(() => assert.deepEqual(processesOf(home), []), { what: 'all processes to end' })
}

export async function query(home: Home, text: string): Promise<unknown[]> {
  const client = new pg.Client(readFileSync(join(home.path, '.fleetline/database-url'), 'utf8'))
  await client.connect()
  const { rows } = await client.query(text).finally(() => client.end())
  return rows
}
