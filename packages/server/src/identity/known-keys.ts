// What this pod has read about API keys. A key that was not found is not kept: one that is created now works at once.
import type { Clock } from '../lib/clock.ts'
import { isDigestOf } from './key-text.ts'
import type { Keys, StoredKey } from './keys.ts'
import { createRecent, type Recent } from './recent.ts'

/** `endMs`: when it expires, by the pod's monotonic clock. */
export type KnownKey = StoredKey & { readonly endMs: number }
export type KnownKeys = {
  find(id: string, outageMs?: number): Promise<KnownKey | undefined>
  /** True if `find` needs no read of its own for this caller: another caller's read of this id is under way, or the last read found a
   *  live key whose text is `text`. */
  isKnown(id: string, text: string): boolean
  /** Why this key opens nothing; undefined if it is live. */
  faultOf(key: KnownKey): KeyFault | undefined
  /** Reads every key again when it is used next. */
  forget(): void
}
export type KeyFault = { readonly reason: 'revoked' | 'expired'; readonly text: string }

const MOST_KEYS = 10_000

export function createKnownKeys({ find }: Pick<Keys, 'find'>, clock: Clock): KnownKeys {
  const known = new Map<string, Recent<KnownKey | undefined>>()
  const read = async (id: string): Promise<KnownKey | undefined> => {
    const askedMs = clock.monotonicMs()
    const row = await find(id)
    return row && { ...row, endMs: askedMs + row.leftMs }
  }
  const add = (id: string) => {
    if (known.size >= MOST_KEYS) known.clear()
    const recent = createRecent(() => read(id), clock)
    known.set(id, recent)
    return recent
  }
  const faultOf: KnownKeys['faultOf'] = ({ id, isRevoked, endMs, expiresAt }) => {
    if (isRevoked) return { reason: 'revoked', text: `The key ${id} was revoked. Use another one` }
    if (clock.monotonicMs() < endMs) return undefined
    return { reason: 'expired', text: `The key ${id} expired at ${expiresAt.toISOString()}. Use another one` }
  }
  return {
    isKnown: (id, text) => {
      const recent = known.get(id)
      const last = recent?.last()
      return last ? isDigestOf(last.digest, text) && !faultOf(last) : recent !== undefined
    },
    find: async (id, outageMs) => {
      const recent = known.get(id) ?? add(id)
      let [key, isFailed]: [KnownKey | undefined, boolean] = [undefined, true]
      try {
        key = await recent.get(outageMs)
        isFailed = false
        return key
      } finally {
        const isUseless = isFailed ? !recent.last() : !key // what was read before an outage is needed in it
        if (isUseless && known.get(id) === recent) known.delete(id)
      }
    },
    faultOf,
    forget: () => known.forEach((recent) => recent.forget()),
  }
}
