// D1 L1 L2 L3 L6: two pods, four writers, readers on both pods. One reader is cut and resumes through the other pod.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../support/database.ts'
import { brokenByLog, brokenByReading, createHistory, textDraft } from '../support/history.ts'
import { sendOver, makeSession } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { readEvents, untilSeq, type Reader } from '../support/reader.ts'
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

  const whole: Reader[] = [await readEvents(t, events(0)), await readEvents(t, events(1))]
  await writeAll(0, 10)
  const cut = await readEvents(t, `${events(1)}?after=${AFTER}`)
  const rest = writeAll(10, EACH)
  await untilSeq(cut, 60, 'at least')
  cut.cut()
  await cut.ended
  const back = await readEvents(t, events(0), { 'last-event-id': cut.lastId()! })
  await rest
  await Promise.all([...whole, back].map((reader) => untilSeq(reader, 200)))

  const log = await logOf(await openDatabase(t, url), keyOf(session))
  assert.deepEqual(brokenByLog(history.ops, log), [])
  assert.equal(log.head, 200)
  const unanswered = history.ops.filter(({ ok }) => ok === undefined)
  assert.deepEqual(unanswered, [])
  for (const reader of whole) {
    assert.deepEqual(brokenByReading({ after: 0, items: reader.items }, log), [])
    assert.equal(reader.items.length, 200)
  }
  assert.deepEqual(brokenByReading({ after: AFTER, items: [...cut.items, ...back.items] }, log), [])
})
