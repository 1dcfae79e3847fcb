// A pod that gets no hints: the connection on which it listens is cut, and it opens another one a minute later at the earliest. Start
// it before other pods of its database.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { HINT_NAME } from '../../src/store/hint-sender.ts'
import { eventually } from './eventually.ts'
import { podOn } from './pod.ts'

const LISTENS = `datname = current_database() and application_name = '${HINT_NAME}' and query like 'listen %'`
const CUT = `select pg_terminate_backend(pid) from pg_stat_activity where ${LISTENS}`
const LISTENING = `select from pg_stat_activity where ${LISTENS}`

export async function deafPodOn(t: TestContext, url: string, flags: Readonly<Record<string, string>>) {
  const started = await podOn(t, url, { ...flags, hintPollMs: '60000' })
  const client = new pg.Client(url)
  await client.connect()
  try {
    await eventually(async () => assert.equal((await client.query(CUT)).rowCount, 1), {
      what: 'the pod to listen',
    })
    await eventually(async () => assert.equal((await client.query(LISTENING)).rowCount, 0), {
      what: 'the cut of its hints',
    })
  } finally {
    await client.end()
  }
  return started
}
