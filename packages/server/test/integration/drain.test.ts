// A pod is taken out of work while agents speak and clients follow: before it stops, and because an operator has asked for it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { CLOSE_CODES, type Ack, type Turn } from '@fleetline/protocol'
import { PODS } from '../../src/cli/pods.ts'
import { agent, task } from '../../src/index.ts'
import type { Database } from '../../src/store/database.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { readEvents } from '../support/reader.ts'
import { refusedHandshake, socketOn } from '../support/socket.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'

const type = typing(PODS, 'pods')

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
      const standing = { name: 'here', state: 'live', isAsked: false, others: 1 }
      assert.deepEqual(plan, { ...standing, ...work, endsWithinMs: 60_000 })
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
  await eventually(async () => assert.equal(await stateOf('here'), 'live'), { what: 'its next beat' })
  assert.equal((await fetch(`${here.admin}/readyz`)).status, 200)
  assert.equal((await socketOn(t, here.gateway)).frames.length >= 0, true, 'it takes sockets again')
  assert.equal((await drain('nobody')).status, 404)
  const audit = (await call('GET', `${there.admin}/v1/audit`)).body as { entries: { action: string }[] }
  const actions = audit.entries.map(({ action }) => action).filter((action) => action.startsWith('pod.'))
  assert.deepEqual(actions, ['pod.undrain', 'pod.drain'])
})

test('the commands say what begins, whether another pod takes work, and that undraining keeps no pod running', async (t) => {
  const { here, there, session, send, stateOf, finish } = await talkOnTwoPods(t)
  const url = there.admin
  const say = async (verb: string, pod: string) => {
    const { code, out, err } = await type({ url }, verb, [pod])
    assert.equal(code, 0, err)
    return [out, err]
  }
  const untilState = (pod: string, state: string) =>
    eventually(async () => assert.equal(await stateOf(pod), state), { what: `${pod} to be ${state}` })
  const socket = await socketOn(t, there.gateway)
  await socket.ask({ type: 'join', session })
  await send(there.gateway, 'hi')
  await socket.next('chunks')
  const begins = 'here begins to drain: 1 turn runs. The drain should end within 60 s.\n'
  assert.deepEqual(await say('drain', 'here'), [begins, ''])
  await untilState('here', 'draining')
  assert.deepEqual(await say('drain', 'here'), ['here drains already: 1 turn runs.\n', ''])
  const [alone, note] = await say('drain', 'there')
  assert.match(
    alone!,
    /^there begins to drain: (1 client moves|nothing runs)\. The drain should end within 60 s/,
  )
  assert.equal(
    note,
    'No other pod takes work. While there drains, no new work starts until you undrain a pod or start another.\n',
  )
  assert.equal((await type({ url }, 'drain', ['there'], { dryRun: true })).err, note)
  const json = await type({ url, json: true }, 'drain', ['here'])
  const { isAsked, others, turns } = JSON.parse(json.out) as Record<string, unknown>
  assert.deepEqual([isAsked, others, turns, json.err], [true, 0, 1, ''])
  socket.ws.close(1000)
  await eventually(
    async () =>
      assert.equal(
        (await say('drain', 'there'))[0],
        'there drains: no task or turn runs, and no client was connected at its last beat.\n',
      ),
    { what: 'the end of the drain' },
  )
  for (const pod of ['here', 'there']) {
    const again = `${pod} takes work again soon, unless its process stops.\n`
    assert.deepEqual(await say('undrain', pod), [again, ''])
    await untilState(pod, 'live')
    assert.deepEqual(await say('undrain', pod), [`${pod} takes work: it was not drained.\n`, ''])
  }
  const stopped = here.pod.stop()
  await untilState('here', 'draining')
  assert.match(
    (await say('undrain', 'here'))[0]!,
    /^here still drains, although no operator asks for that\. .* Undrain does not prevent a stop/,
  )
  finish()
  await stopped
})

test('two who ask at once leave one entry in the audit log; a pod that does not know drains is not asked', async (t) => {
  const url = await databaseFor(t)
  const { admin } = await podOn(t, url, { podName: 'one' })
  const drain = (pod: string) => call('POST', `${admin}/v1/pods/${pod}/drain`, {})
  const statuses = (await Promise.all([drain('one'), drain('one'), drain('one')])).map(({ status }) => status)
  assert.deepEqual(statuses, [200, 200, 200])
  const { entries } = (await call('GET', `${admin}/v1/audit`)).body as { entries: { action: string }[] }
  assert.equal(entries.filter(({ action }) => action === 'pod.drain').length, 1)
  const database = await openDatabase(t, url)
  const ofOldRelease = `insert into fleetline.pods (name, version, tracks) values ('old', '0', '{}')`
  await database.transaction((query) => query(ofOldRelease))
  assert.equal((await drain('old')).status, 409)
})

/** Resolves after so many more beats of this pod. */
async function beats(database: Database, name: string, count: number): Promise<void> {
  const seen = new Set<string>()
  const look = async () => {
    const read = await database.transaction((query) =>
      query<{ beat: string }>('select beat_at::text as beat from fleetline.pods where name = $1', [name]),
    )
    assert.ok(read.type === 'committed')
    seen.add(read.value[0]!.beat)
    assert.ok(seen.size > count)
  }
  await eventually(look, { what: `${count} beats`, details: () => `It saw ${seen.size - 1}.` })
}

test('an operator who takes a drain back does not hold up a stop', async (t) => {
  const url = await databaseFor(t)
  const end = Promise.withResolvers<void>()
  atEnd(t, end.resolve)
  const flags = { podName: 'one', drainMs: '60000' }
  const { pod, admin } = await podOn(t, url, flags, { tasks: [task('long', () => end.promise)] })
  const other = await podOn(t, url)
  const { id } = await pod.enqueue({ machine: 'long' })
  await eventually(async () => assert.equal((await pod.findTask(id))!.state, 'claimed'), {
    what: 'the claim',
  })
  const ask = (act: string) =>
    call('POST', `${other.admin}/v1/pods/one/${act}`, act === 'drain' ? {} : undefined)
  const isReady = async () => (await fetch(`${admin}/readyz`)).status === 200
  await ask('drain')
  await eventually(async () => assert.equal(await isReady(), false), { what: 'the drain' })
  const stopped = pod.stop()
  await ask('undrain')
  const stateOf = async () => {
    const { pods } = (await call('GET', `${other.admin}/v1/pods`)).body as {
      pods: { name: string; state: string }[]
    }
    return pods.find(({ name }) => name === 'one')!.state
  }
  await beats(await openDatabase(t, url), 'one', 5)
  assert.deepEqual([await isReady(), await stateOf()], [false, 'draining'])
  end.resolve()
  await stopped
  assert.equal((await other.pod.findTask(id))!.state, 'done')
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
