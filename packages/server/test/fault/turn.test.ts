// Pods that are killed or paused in the middle of a turn. Beats are made old by hand, so no test waits for a ttl.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Ack, Frame, Page, StopAck, Turn } from '@fleetline/protocol'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { podRows, bury } from '../support/fleet.ts'
import { call, makeSession } from '../support/http.ts'
import { APP, startPod, type RunningPod } from '../support/pods.ts'
import { openText, readEvents, untilSeq } from '../support/reader.ts'
import { openDatabase } from '../support/store.ts'

const WORDS = 'these words are said once'

/** A pod that is stopped within a transaction keeps its locks for so long; by default, tests allow two minutes. */
const SLEEPS = { FLEETLINE_IDLE_TRANSACTION_MS: '10000' }

async function twoPods(t: TestContext, ofFirst: Readonly<Record<string, string>> = {}) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const podNamed = async (name: string, env = {}) => {
    const pod = await startPod(t, url, { FLEETLINE_POD_NAME: name, ...env }, APP)
    const { pod: id } = (await podRows(database)).find((row) => row.name === name)!
    return { ...pod, id }
  }
  const first = await podNamed('first', ofFirst)
  const { session } = await makeSession(first.gateway, { agent: 'parrot' })
  const send = async (text: string, gateway = first.gateway) => {
    const { body } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text })
    return (body as unknown as Ack).turn!
  }
  return {
    first,
    send,
    /** Starts the second pod. Call it when the first has the turn. */
    second: () => podNamed('second'),
    bury: () => bury(database, first.id),
    stop: async (gateway: string, turn: string) =>
      (await call('POST', `${gateway}/v1/sessions/${session}/stop`, { turn, epoch: 1 }))
        .body as unknown as StopAck,
    events: (gateway: string) => `${gateway}/v1/sessions/${session}/events`,
    read: async (gateway: string) => {
      const page = (await call('GET', `${gateway}/v1/sessions/${session}/messages`)).body as unknown as Page
      return page.items.map(({ role, parts }) => [role, parts[0]!['text']])
    },
    untilTurn: (gateway: string, turn: string, is: (found: Turn) => boolean, details: () => string) =>
      eventually(
        async () => {
          const found = (await call('GET', `${gateway}/v1/turns/${turn}`)).body as unknown as Turn
          assert.ok(is(found), JSON.stringify(found))
          return found
        },
        { what: 'the turn', details },
      ),
  }
}

/** The reader got the reply once and was told that its turn is done. The chunks before it had no gap. */
function assertWhole(frames: readonly Frame[]): void {
  const items = frames.flatMap((frame) => (frame.type === 'messages' ? frame.items : []))
  const replies = items.filter(({ role }) => role === 'assistant')
  assert.deepEqual(
    replies.map(({ parts }) => parts[0]!['text']),
    [`${WORDS} `],
  )
  const last = frames.at(-1)!
  assert.ok(last.type === 'turn' && last.turn.state === 'done', JSON.stringify(last))
  openText(frames, last.turn.id)
}

for (const [point, why, shown] of [
  ['turn.chunk:3', 'in the middle of the stream', 'these '],
  ['turn.ending', 'before the final commit', undefined], // its stream is closed by then
] as const) {
  test(`E5 D4: if its pod is killed ${why}, another pod does the turn once and every reader gets the reply`, async (t) => {
    const fleet = await twoPods(t, { FLEETLINE_CRASH: `${point}:hold` })
    const { first } = fleet
    const turn = await fleet.send(WORDS)
    const held = new RegExp(`held at ${point.split(':')[0]}`)
    await eventually(() => assert.match(first.program.output(), held), { what: 'the hold' })
    const second = await fleet.second()
    const lost = await readEvents(t, fleet.events(first.gateway))
    const stayed = await readEvents(t, fleet.events(second.gateway))
    for (const { frames } of shown === undefined ? [] : [lost, stayed])
      await eventually(() => assert.equal(openText(frames, turn), shown), { what: 'what was said' })
    await untilSeq(lost, 1)
    first.program.kill('SIGKILL')
    await lost.ended
    const back = await readEvents(t, fleet.events(second.gateway), { 'last-event-id': lost.lastId()! })
    await fleet.bury()
    const isDone = ({ state }: Turn) => state === 'done'
    const done = await fleet.untilTurn(second.gateway, turn, isDone, second.program.output)
    assert.equal(done.epoch, 1)
    assert.equal(done.attempt, 2)
    assert.deepEqual(await fleet.read(second.gateway), [
      ['user', WORDS],
      ['assistant', `${WORDS} `],
    ])
    for (const readers of [[lost, back], [stayed]])
      await eventually(() => assertWhole(readers.flatMap(({ frames }) => frames)), { what: 'the end' })
  })
}

const untilFenced = ({ admin, program }: RunningPod) =>
  eventually(
    async () =>
      assert.match(
        await (await fetch(`${admin}/metrics`)).text(),
        /fleetline_tasks_settled_total\{machine="turn",outcome="fenced"\} 1/,
      ),
    { what: 'the fence', details: program.output },
  )

test('E8: a turn that is stopped while its pod sleeps halts when the pod is dead, and the pod changes nothing when it wakes', async (t) => {
  const fleet = await twoPods(t, SLEEPS)
  const { first } = fleet
  const turn = await fleet.send('said in time until:never')
  const second = await fleet.second()
  const reader = await readEvents(t, fleet.events(second.gateway))
  await eventually(() => assert.equal(openText(reader.frames, turn), 'said in time '), { what: 'its words' })
  first.program.kill('SIGSTOP')
  assert.deepEqual(await fleet.stop(second.gateway, turn), { stopped: true, seq: 2 })
  const { output } = second.program
  await fleet.untilTurn(second.gateway, turn, ({ halted }) => halted === false, output)
  await fleet.bury()
  await fleet.untilTurn(second.gateway, turn, ({ halted }) => halted === true, output)
  const next = await fleet.send('go on', second.gateway)
  await fleet.untilTurn(second.gateway, next, ({ state }) => state === 'done', output)
  first.program.kill('SIGCONT')
  await untilFenced(first)
  assert.deepEqual(await fleet.read(second.gateway), [
    ['user', 'said in time until:never'],
    ['assistant', 'said in time '],
    ['user', 'go on'],
    ['assistant', 'go on '],
  ])
})

test('E1: a pod that wakes after another pod has done its turn changes nothing', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-turn-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'open')
  const fleet = await twoPods(t, SLEEPS)
  const { first } = fleet
  const turn = await fleet.send(`said until:${file} once`)
  const runsOn = (pod: string) => (found: Turn) => found.pod === pod
  await fleet.untilTurn(first.gateway, turn, runsOn('first'), first.program.output)
  const second = await fleet.second()
  // Before its agent speaks, the attempt has the row of the turn locked for a moment. The second pod would wait for that lock.
  const reader = await readEvents(t, fleet.events(second.gateway))
  await eventually(() => assert.equal(openText(reader.frames, turn), 'said '), { what: 'its words' })
  first.program.kill('SIGSTOP')
  await fleet.bury()
  await fleet.untilTurn(second.gateway, turn, runsOn('second'), second.program.output)
  writeFileSync(file, '')
  const isDone = ({ state }: Turn) => state === 'done'
  const done = await fleet.untilTurn(second.gateway, turn, isDone, second.program.output)
  const log = await fleet.read(second.gateway)
  first.program.kill('SIGCONT')
  await untilFenced(first)
  assert.deepEqual(await fleet.read(second.gateway), log)
  assert.deepEqual(log.at(-1), ['assistant', 'said once '])
  const after = await fleet.untilTurn(second.gateway, turn, isDone, second.program.output)
  assert.deepEqual(after, done)
})
