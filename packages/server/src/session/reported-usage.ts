// What attempts had reported of their usage until they were cut off: by a stop, or by the death of their pod. It is read from the chunks
// that reached the table, so the last moments before the cut may be missing.
import { ChunkError, chunkOf } from '@fleetline/protocol'
import type { Query } from '../store/database.ts'
import { columnsOf } from '../store/columns.ts'
import type { UsedAttempt } from '../usage/record.ts'
import { createTokenMeter, type ModelTokens } from '../usage/tokens.ts'
import { readSpoken, type Batch, type TurnKey } from './chunks.ts'

// The error of a task keeps the codes of its last five attempts, so the next attempt always sees the loss of the one before.
const LOST = `
  select k.tenant, k.id as turn, (f ->> 'attempt')::int as attempt
    from unnest($1::int[], $2::uuid[]) w(tenant, turn)
    join fleetline.tasks k on k.tenant = w.tenant and k.id = w.turn
   cross join lateral jsonb_array_elements(k.error -> 'attempts') f
   where f ->> 'code' = 'pod_lost'`

/** The attempts of these turns whose pod died. */
export async function findLostUsage(
  query: Query,
  turns: readonly TurnKey[],
): Promise<readonly UsedAttempt[]> {
  if (turns.length === 0) return []
  const lost = await query<TurnKey & { readonly attempt: number }>(LOST, columnsOf(turns, 'tenant', 'turn'))
  if (lost.length === 0) return []
  const said = await readSpoken(query, lost)
  return lost.map((attempt, index) => ({ ...attempt, outcome: 'lost', models: reportedIn(said[index]!) }))
}

/** Chunks after a gap, and those that this release does not know, are not counted. */
export function reportedIn(batches: readonly Batch[]): readonly ModelTokens[] {
  const meter = createTokenMeter()
  let next = 0
  try {
    for (const { index, count, body } of batches) {
      if (index !== next) break
      next += count
      for (const chunk of JSON.parse(body) as unknown[]) meter.take(chunkOf(chunk))
    }
  } catch (error) {
    if (!(error instanceof ChunkError || error instanceof SyntaxError)) throw error
  }
  return meter.models()
}
