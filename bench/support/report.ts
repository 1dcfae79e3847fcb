// What a bench reports: ratios, times and counts under names that tools read, a table for people, the machine and the commit.
import { execFileSync } from 'node:child_process'
import { cpus, release, totalmem } from 'node:os'
import type { Scope } from '../../packages/server/test/support/cleanup.ts'
import type { Cluster } from '../../packages/server/test/support/cluster.ts'

/** `smoke` is for the gate: the smallest size, without peers, to check that the bench runs and loses nothing. */
export type Size = 'full' | 'quick' | 'smoke'
export type Bench = (options: BenchOptions, scope: Scope) => Promise<Report>
export type BenchOptions = {
  readonly size: Size
  /** Starts a server with the settings of production and these. */
  readonly startServer: (settings?: Readonly<Record<string, string>>) => Promise<Cluster>
}

export type Report = {
  readonly ratios: Readonly<Record<string, number>>
  /** In ms, where a ratio would mean nothing. */
  readonly times?: Readonly<Record<string, number>>
  readonly counts: Readonly<Record<string, number>>
  readonly table: readonly (readonly (string | number)[])[]
  /** What must never happen, at any speed. */
  readonly faults: readonly string[]
  /** The version of the server, if there was one. */
  readonly postgres?: string
}

/** The settings of a bench's server: those of production, where the servers of tests differ from it. */
export const DURABLE = {
  fsync: 'on',
  autovacuum: 'on',
  synchronous_commit: 'on',
  synchronous_standby_names: '',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
}

type Published = ReturnType<typeof publish>

export function publish(
  run: { readonly bench: string; readonly quick: boolean },
  { ratios, times = {}, counts, postgres = 'none' }: Report,
) {
  const machine = {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    postgres,
  }
  return { ...run, ratios: roundedAll(ratios), times: roundedAll(times), counts, machine, commit: commitOf() }
}

export function machineLine({ machine, commit }: Published): string {
  const { cpu, cores, memoryGiB, kernel, node, postgres } = machine
  return `${cpu}, ${cores} cores, ${memoryGiB} GiB, Linux ${kernel}, Node ${node}, PostgreSQL ${postgres}, commit ${commit}`
}

export async function versionOf(cluster: Cluster): Promise<string> {
  const { rows } = await cluster.admin('show server_version')
  return String(rows[0]!['server_version']).split(' ')[0]!
}

/** Returns a Markdown table. The first row is its head. */
export function tableOf([head = [], ...rows]: Report['table']): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

export function rounded(value: number): number {
  return Number(value.toPrecision(3))
}

function roundedAll(values: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, rounded(value)]))
}

function commitOf(): string {
  const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()
  return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain') === '' ? '' : ' with changes'}`
}
