// What agents have said and pods have written down. A stop keeps that: a pod writes 20 times a second.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { valueOf } from '../../src/store/database.ts'
import { eventually } from './eventually.ts'
import { openDatabase } from './store.ts'

/** Resolves when these words of a live reply are written down. */
export async function untilWritten(t: TestContext, url: string, words: string): Promise<void> {
  const database = await openDatabase(t, url)
  const check = async () => {
    const outcome = await database.transaction((query) => query('select body from fleetline.chunks'))
    assert.ok(JSON.stringify(valueOf(outcome, 'not read')).includes(words))
  }
  await eventually(check, { what: `${words} to be written down` })
}
