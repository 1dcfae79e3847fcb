// What the leader does for sessions: it sweeps chunks of turns that have ended, which a pod has written late. Nobody reads
// those, whoever leads: it names no term.
import { valueOf, type Database } from '../store/database.ts'
import { sweepChunks } from './chunks.ts'

type Duty = { readonly name: string; readonly everyMs: number; readonly run: () => Promise<void> }

const SWEEP_MS = 60_000

export function sessionDuties({ database }: { readonly database: Pick<Database, 'transaction'> }): Duty[] {
  const sweep = async () => {
    valueOf(await database.transaction(sweepChunks), 'Chunks of ended turns could not be swept')
  }
  return [{ name: 'chunks of ended turns', everyMs: SWEEP_MS, run: sweep }]
}
