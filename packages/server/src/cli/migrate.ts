// fleetline migrate up | status
import { loadConfig, type Config, type Flags } from '../config.ts'
import { migrateUp, migrationStatus } from '../store/migrate.ts'
import type { Command } from './command.ts'
import { EXIT, type Output } from './output.ts'
import { warnOfOpenConnection } from './tls-warning.ts'

const UP: Command = {
  name: 'migrate up',
  summary: 'Apply the missing migrations. It is safe to run several at once.',
  settings: ['databaseUrl'],
  run: async ({ flags, output }) => {
    const applied = await migrateUp(targetOf(flags, output))
    if (output.isJson) output.one({ applied })
    else
      output.list(
        ['migration', 'state'],
        applied.map((migration) => ({ migration, state: 'applied' })),
      )
    if (applied.length === 0) output.note('Nothing to apply.')
    return EXIT.done
  },
}

const STATUS: Command = {
  name: 'migrate status',
  summary:
    'List the migrations of this release: when each was applied, and the oldest migration whose pods can run on it.',
  settings: ['databaseUrl'],
  run: async ({ flags, output }) => {
    const migrations = await migrationStatus(targetOf(flags, output))
    const rows = migrations.map(({ name, podsFrom, appliedAt }) => ({
      migration: name,
      state: appliedAt ? 'applied' : 'pending',
      podsFrom,
      appliedAt: appliedAt ?? null,
    }))
    output.list(['migration', 'state', 'podsFrom', 'appliedAt'], rows)
    return EXIT.done
  },
}

export const MIGRATE: readonly Command[] = [UP, STATUS]

function targetOf(flags: Flags, output: Output): Pick<Config, 'databaseUrl'> {
  const { databaseUrl } = loadConfig({ flags })
  warnOfOpenConnection(databaseUrl, output)
  return { databaseUrl }
}
