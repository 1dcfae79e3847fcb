// A pod is taken out of work while agents speak and clients follow: before it stops, and because an operator has asked for it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { CLOSE_CODES, type Ack, type Turn } from '@fleetline/protocol'
import { agent, task } from '../../src/index.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { readEvents } from '../support/reader.ts'
import { refusedHandshake, socketOn } from '../support/socket.ts'

/** Two pods; only the first has the agent, which says its second half when it is told to. */
async function talkOnTwoPods(t: TestContext) {
  const url = await databaseFor(t)
  const end = Promise.withResolvers<void>()
  atEnd(t, end.resolve)
  const slow = agent('slow', async function* () {
    yield { type: 'start' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: 'first ' }
    await end.promise
    yield { type: 'text-delta', id: '1', delta: 'second' }
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish' }
  })
  const flags = { drainMs: '60000' }
  const here = await podOn(t, url, { ...flags, podName: 'here' }, { agents: [slow] })
  const there = await podOn(t, url, { ...flags, podName: 'there' })
  const { session } = await makeSession(here.gateway, { agent: 'slow' })
  const send = async (gateway: string, text: string) =>
    (await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text })).body as unknown as Ack
  const turn = async (id: string) =>
    (await call('GET', `${there.gateway}/v1/turns/${id}`)).body as unknown as Turn
  const pods = async () =>
    ((await call('GET', `${there.admin}/v1/pods`)).body as { pods: { name: string; state: string }[] }).pods
  const stateOf = async (name: string) => (await pods()).find((pod) => pod.name === name)?.state
  return { here, there, session, send, turn, stateOf, finish: end.resolve }
}

test('R1: a pod that stops moves its clients and ends its replies: no reply begins anew, nothing is lost', async (t) => {
  const { here, there, session, send, turn, finish } = await talkOnTwoPods(t)
  const [moved, lazy] = [await socketOn(t, here.gateway), await socketOn(t, here.gateway)]
  const events = await readEvents(t, `${here.gateway}/v1/sessions/${session}/events`)
  for (const socket of [moved, lazy]) await socket.ask({ type: 'join', session, after: 0, epoch: 1 })
  const { turn: id } = await send(here.gateway, 'hi')
  await moved.next('chunks')
  const stopped = here.pod.stop()
  await moved.next('reconnect')
  const next = await socketOn(t, there.gateway)
  await next.ask({ type: 'join', session, cursor: moved.followed().at(-1)!.cursor })
  moved.ws.close(1000)
  assert.equal((await lazy.closed).code, CLOSE_CODES.restart, 'it was asked, and did not leave')
  assert.equal(await events.ended, true, 'its reader was sent away')
  const refused = await refusedHandshake(`${here.gateway}/v1/socket`)
  assert.deepEqual([refused.status, /drains: connect again/.test(refused.text)], [503, true])
  assert.equal((await call('GET', `${here.gateway}/v1/sessions/${session}/events`)).status, 503)
  assert.equal((await call('GET', `${here.gateway}/v1/sessions/${session}`)).status, 200)
  finish()
  await stopped
  const ended = await turn(id!)
  assert.deepEqual([ended.state, ended.attempt], ['done', 1])
  await eventually(
    () => assert.ok(next.frames.some((one) => one.type === 'turn' && one.turn.state === 'done')),
    {
      what: 'the end on the other pod',
    },
  )
  const items = [...moved.followed(), ...next.followed()].flatMap((frame) =>
    frame.type === 'messages' ? frame.items : [],
  )
  assert.deepEqual(
    items.map(({ seq, parts }) => [seq, parts[0]!['text']]),
    [
      [1, 'hi'],
      [2, 'first second'],
    ],
  )
})

test('an operator drains a pod and takes that back; a dry run changes nothing', async (t) => {
  const { here, there, session, send, turn, stateOf, finish } = await talkOnTwoPods(t)
  const drain = (pod: string, body: object = {}) => call('POST', `${there.admin}/v1/pods/${pod}/drain`, body)
  const socket = await socketOn(t, here.gateway)
  await socket.ask({ type: 'join', session })
  const { turn: id } = await send(there.gateway, 'hi')
  await socket.next('chunks')
  await eventually(
    async () => {
      const { pod: _, ...plan } = (await drain('here', { dryRun: true })).body
      const work = { sockets: 1, streams: 0, turns: 1, tasks: 0 }
      assert.deepEqual(plan, { name: 'here', state: 'live', ...work, endsWithinMs: 60_000 })
    },
    { what: 'the plan with the socket' },
  )
  assert.equal(await stateOf('here'), 'live')
  assert.equal((await drain('here')).status, 200)
  await socket.next('reconnect')
  await eventually(async () => assert.equal(await stateOf('here'), 'draining'), { what: 'the drain' })
  assert.equal((await fetch(`${here.admin}/readyz`)).status, 503)
  finish()
  await eventually(async () => assert.equal((await turn(id!)).state, 'done'), {
    what: 'the end of the reply',
  })
  const { turn: waiting } = await send(there.gateway, 'again')
  const undrain = () => call('POST', `${there.admin}/v1/pods/here/undrain`)
  assert.equal((await turn(waiting!)).state, 'queued', 'only the drained pod has the agent')
  assert.equal((await undrain()).status, 200)
  await eventually(async () => assert.equal((await turn(waiting!)).state, 'done'), { what: 'the next reply' })
  assert.deepEqual([await stateOf('here'), (await fetch(`${here.admin}/readyz`)).status], ['live', 200])
  assert.equal((await socketOn(t, here.gateway)).frames.length >= 0, true, 'it takes sockets again')
  assert.equal((await drain('nobody')).status, 404)
  const audit = (await call('GET', `${there.admin}/v1/audit`)).body as { entries: { action: string }[] }
  const actions = audit.entries.map(({ action }) => action).filter((action) => action.startsWith('pod.'))
  assert.deepEqual(actions, ['pod.undrain', 'pod.drain'])
})

test('a task that runs when a drain begins ends on its pod; the drain that is taken back lets it go on', async (t) => {
  const url = await databaseFor(t)
  const end = Promise.withResolvers<string>()
  const { pod, admin } = await podOn(
    t,
    url,
    { podName: 'one', drainMs: '60000' },
    { tasks: [task('long', () => end.promise)] },
  )
  const { id } = await pod.enqueue({ machine: 'long' })
  const state = async () => (await pod.findTask(id))!.state
  const untilState = (wanted: string) =>
    eventually(async () => assert.equal(await state(), wanted), { what: `the task to be ${wanted}` })
  await untilState('claimed')
  const ask = (act: string) => call('POST', `${admin}/v1/pods/one/${act}`, act === 'drain' ? {} : undefined)
  const untilReady = (status: number) =>
    eventually(async () => assert.equal((await fetch(`${admin}/readyz`)).status, status), {
      what: `${status}`,
    })
  for (const [act, status] of [
    ['drain', 503],
    ['undrain', 200],
    ['drain', 503],
  ] as const) {
    await ask(act)
    await untilReady(status)
  }
  const other = await pod.enqueue({ machine: 'long' })
  end.resolve('done')
  await untilState('done')
  assert.equal((await pod.findTask(other.id))!.state, 'ready')
  await ask('undrain')
  await eventually(async () => assert.equal((await pod.findTask(other.id))!.state, 'done'), {
    what: 'the other',
  })
})
