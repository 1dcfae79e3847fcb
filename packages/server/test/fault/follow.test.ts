// D1 L1 L2 L3 L6: two pods, four writers, readers on both pods, over events and over sockets. Two of them are cut and resume
// through the other pod.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { brokenByLog, brokenByReading, createHistory, textDraft } from '../support/history.ts'
import { sendOver, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { readEvents, readSocket, untilSeq, type Reader } from '../support/reader.ts'
import { keyOf, logOf } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'

const EACH = 50
const AFTER = 20

test('D1 L3 L6: every reader receives 200 messages of 4 writers in order, also one that was cut and resumed', async (t) => {
  const url = await databaseFor(t)
  const pods = await Promise.all([startPod(t, url), startPod(t, url)])
  const { session } = await makeSession(pods[0].gateway)
  const events = (pod: number) => `${pods[pod]!.gateway}/v1/sessions/${session}/events`
  const history = createHistory()
  const write = async (writer: number, from: number, to: number) => {
    for (let n = from; n < to; n += 1) {
      const item = { ...keyOf(session), draft: textDraft(`w${writer}-${n}`) }
      await history.send(item, sendOver(pods[(writer + n) % 2]!.gateway))
    }
  }
  const writeAll = (from: number, to: number) => Promise.all([0, 1, 2, 3].map((w) => write(w, from, to)))

  const overSocket = (pod: number, position: object) =>
    readSocket(t, pods[pod]!.gateway, { session, ...position })
  const whole: Reader[] = [
    await readEvents(t, events(0)),
    await readEvents(t, events(1)),
    await overSocket(0, { after: 0 }),
  ]
  await writeAll(0, 10)
  const cuts = [await readEvents(t, `${events(1)}?after=${AFTER}`), await overSocket(1, { after: AFTER })]
  const rest = writeAll(10, EACH)
  for (const cut of cuts) {
    await untilSeq(cut, 60, 'at least')
    cut.cut()
    await cut.ended
  }
  const [over, under] = [cuts[0]!.lastId()!, cuts[1]!.lastId()!]
  const back = [
    await readEvents(t, events(0), { 'last-event-id': over }),
    await overSocket(0, { cursor: under }),
  ]
  await rest
  await Promise.all([...whole, ...back].map((reader) => untilSeq(reader, 200)))

  const log = await logOf(await openDatabase(t, url), keyOf(session))
  assert.deepEqual(brokenByLog(history.ops, log), [])
  assert.equal(log.head, 200)
  const unanswered = history.ops.filter(({ ok }) => ok === undefined)
  assert.deepEqual(unanswered, [])
  for (const reader of whole) {
    assert.deepEqual(brokenByReading({ after: 0, items: reader.items }, log), [])
    assert.equal(reader.items.length, 200)
  }
  for (const [n, cut] of cuts.entries())
    assert.deepEqual(brokenByReading({ after: AFTER, items: [...cut.items, ...back[n]!.items] }, log), [])
})
