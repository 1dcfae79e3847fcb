// Which days a question about usage may name.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { usageQuery } from '../../src/gateway/usage-schemas.ts'

test('a question about usage names days of the years 1970 to 9999', () => {
  const isDay = (from: string) => usageQuery.safeParse({ from }).success
  for (const day of ['1970-01-01', '2024-02-29', '9999-12-31']) assert.ok(isDay(day), day)
  for (const day of [
    '0000-01-01',
    '0001-01-01',
    '1969-12-31',
    '2026-02-29',
    '2026-13-01',
    '10000-01-01',
    'today',
  ])
    assert.ok(!isDay(day), day)
})
