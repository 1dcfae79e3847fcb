// L1 L2 L3 L4 L6 D1: pods are killed while eight writers write and a reader follows each session. A writer that gets no answer
// sends the same message again through the other pod. A reader resumes there, after the last event that it received.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { brokenByLog, brokenByReading, createHistory, textDraft, type Op } from '../support/history.ts'
import { makeSession, sendOver } from '../support/http.ts'
import { startPod, type RunningPod } from '../support/pods.ts'
import { readEvents, type Reader } from '../support/reader.ts'
import { keyOf, logOf } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'

const KILLS = 4
const SESSIONS = 4
const WRITERS = 8
const ACKS_BETWEEN = 100

type Fleet = { readonly pods: RunningPod[]; isWriting: boolean; isFollowing: boolean; foundAgain: number }
type Conversation = {
  readonly session: string
  readonly history: ReturnType<typeof createHistory>
  /** One after the other: each resumes where the one before it lost its pod. */
  readonly readers: Reader[]
}

test('after kill -9 under load every acknowledged message is stored once at its seq, and readers miss nothing', async (t) => {
  const url = await databaseFor(t)
  const pods = await Promise.all([startPod(t, url), startPod(t, url)])
  const fleet = { pods, isWriting: true, isFollowing: true, foundAgain: 0 }
  const all = await Promise.all(
    Array.from({ length: SESSIONS }, async (): Promise<Conversation> => {
      const { session } = await makeSession(pods[0].gateway)
      return { session, history: createHistory(), readers: [] }
    }),
  )
  const followed = Promise.all(all.map((each) => follow(t, fleet, each)))
  const written = Promise.all(
    Array.from({ length: WRITERS }, (_, writer) => write(fleet, writer, all[writer % SESSIONS]!)),
  )
  for (const pending of [followed, written]) pending.catch(() => undefined) // awaited below
  const acked = () => all.flatMap(({ history }) => history.ops.filter(isAcked)).length
  for (let kill = 0; kill < KILLS; kill += 1) {
    const due = acked() + ACKS_BETWEEN
    await eventually(() => assert.ok(acked() >= due), { what: `${due} acknowledged messages` })
    pods[kill % 2]!.program.kill('SIGKILL')
    pods[kill % 2] = await startPod(t, url)
  }
  fleet.isWriting = false
  await written

  const db = await openDatabase(t, url)
  for (const { session, history, readers } of all) {
    const log = await logOf(db, keyOf(session))
    assert.deepEqual(brokenByLog(history.ops, log), [])
    const items = () => readers.flatMap((reader) => reader.items)
    await eventually(() => assert.equal(items().at(-1)?.seq, log.head), {
      what: 'the reader to be at the head',
    })
    assert.deepEqual(brokenByReading({ after: 0, items: items() }, log), [])
  }
  fleet.isFollowing = false
  for (const { readers } of all) readers.at(-1)!.cut()
  await followed
  t.diagnostic(`figure acked ${acked()}`)
  // Messages whose pod committed them and was killed before it answered.
  t.diagnostic(`figure found_again ${fleet.foundAgain}`)
})

/** Sends message after message, each until one of the pods acknowledges it. */
async function write(fleet: Fleet, writer: number, { session, history }: Conversation): Promise<void> {
  let at = writer
  for (let n = 0; fleet.isWriting; n += 1) {
    const item = { ...keyOf(session), draft: textDraft(`w${writer}-${n}`) }
    const send = async () => {
      const op = await history.send(item, async () => {
        const answer = await sendOver(fleet.pods[(at += 1) % 2]!.gateway)(item)
        if (answer.type === 'stored' && answer.deduped) fleet.foundAgain += 1
        return answer
      })
      assert.ok(isAcked(op))
    }
    await eventually(send, { what: `${item.draft.id} to be acknowledged` })
  }
}

async function follow(t: TestContext, fleet: Fleet, { session, readers }: Conversation): Promise<void> {
  let [at, lastId] = [0, '0']
  const open = () => {
    const { gateway } = fleet.pods[(at += 1) % 2]!
    return readEvents(t, `${gateway}/v1/sessions/${session}/events`, { 'last-event-id': lastId })
  }
  while (fleet.isFollowing) {
    const reader = await eventually(open, { what: 'a pod to follow' })
    readers.push(reader)
    await reader.ended
    lastId = reader.lastId() ?? lastId
  }
}

function isAcked({ ok }: Op): boolean {
  return ok !== undefined
}
