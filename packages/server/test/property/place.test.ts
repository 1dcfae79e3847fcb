// Fails when a repeat inside the batch takes a seq of its own, when ifHead is compared with the head before the batch,
// and when a refused item moves the head (all three tried).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { place, type Append, type Appended } from '../../src/session/place.ts'
import { textDraft } from '../support/history.ts'

const sends = fc.record({
  session: fc.constantFrom('s1', 's2', 'nowhere'),
  id: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
  text: fc.constantFrom('one', 'two'),
  ifHead: fc.option(fc.nat(6), { nil: undefined }),
})
const batches = fc.array(fc.array(sends, { minLength: 1, maxLength: 8 }), { maxLength: 8 })

/** The same rules, one message at a time, over whole logs. */
function model(logs: Map<string, { id: string; text: string }[]>, send: Send): Appended {
  const log = logs.get(send.session)
  if (!log) return { type: 'not-found' }
  const at = log.findIndex(({ id }) => id === send.id)
  if (at >= 0)
    return log[at]!.text === send.text
      ? { type: 'stored', seq: at + 1, deduped: true }
      : { type: 'conflict', seq: at + 1 }
  if (send.ifHead !== undefined && send.ifHead !== log.length) return { type: 'stale', head: log.length }
  return { type: 'stored', seq: log.push(send), deduped: false }
}
type Send = { session: string; id: string; text: string; ifHead: number | undefined }

test('L2 L4 L11: a batch places its messages as if each had come alone', () => {
  fc.assert(
    fc.property(batches, (plan) => {
      const logs = new Map([
        ['s1', []],
        ['s2', []],
      ] as [string, { id: string; text: string }[]][])
      const stored = new Map<string, { seq: number; digest: string }>()
      const heads = new Map([
        ['1/s1', 0],
        ['1/s2', 0],
      ])
      for (const batch of plan) {
        const items = batch.map(({ session, id, text, ifHead }): Append => {
          const item = { tenant: 1, session, draft: textDraft(id, text) }
          return ifHead === undefined ? item : { ...item, ifHead }
        })
        const seen = items.flatMap(({ session, draft }, index) => {
          const row = stored.get(`${session}/${draft.id}`)
          return row ? [[index, row] as const] : []
        })
        const { results, written, heads: grown } = place(items, { heads, stored: new Map(seen) })
        assert.deepEqual(
          results,
          batch.map((send) => model(logs, send)),
        )
        for (const { item, seq } of written)
          stored.set(`${item.session}/${item.draft.id}`, { seq, digest: item.draft.digest })
        for (const [name, { head }] of grown) heads.set(name, head)
      }
      assert.deepEqual(
        [...heads.values()],
        [...logs.values()].map((log) => log.length),
      )
    }),
  )
})
