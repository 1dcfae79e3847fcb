// The page of a dev fleet, over two pods in this process: its devices, its score, and the requests that it rejects.
// fault/dev.test.ts kills and pauses pods that are processes.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { test, type TestContext } from 'node:test'
import { hold, task } from '../../src/index.ts'
import { eventOf } from '../../src/cli/dev/events.ts'
import type { Scene } from '../../src/cli/dev/page/wire.ts'
import { createFleetPage } from '../../src/cli/dev/page/page.ts'
import { portsOf, type DevPod, type PodState } from '../../src/cli/dev/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { valueOf } from '../../src/store/database.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession, sayRaw } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { readEvents } from '../support/reader.ts'
import { openDatabase } from '../support/store.ts'

const PAINT = task('paint', () => hold('no colour'))

/** A pod in this process, so it cannot be killed. It records what it is asked to do. */
async function controlled(t: TestContext, url: string, name: string) {
  const { pod, gateway } = await podOn(t, url, { podName: name }, { tasks: [PAINT] })
  const ready = { state: 'ready', ports: pod.ports(), sinceMs: 0 } as const
  const state: { standing: PodState; asked: string[] } = { standing: ready, asked: [] }
  const ask = (what: string) => () => state.standing.state === 'ready' && state.asked.push(what) > 0
  const acts = { kill: ask('kill'), pause: ask('pause'), wake: ask('wake'), restart: ask('restart') }
  const control: DevPod = { name, standing: () => state.standing, ...acts }
  return { control, state, ready, gateway }
}

async function pageOn(t: TestContext) {
  const url = await databaseFor(t)
  const [first, second] = [await controlled(t, url, 'pod-1'), await controlled(t, url, 'pod-2')]
  const all = [first.control, second.control]
  await makeSession(first.gateway, { alias: 'demo' })
  const isReady = { now: true }
  const page = createFleetPage({
    host: '127.0.0.1',
    port: 0,
    session: 'demo',
    clock: systemClock(),
    random: systemRandom(),
    pods: {
      name: 'pods',
      all,
      live: () => all.flatMap((pod) => portsOf(pod.standing()) ?? []),
      start: async () => undefined,
      stop: async () => undefined,
    },
    about: () => ({ version: '1.2.3', postgres: 'PostgreSQL 15', ttlMs: 5_000 }),
    isReady: () => isReady.now,
    onEvent: () => undefined,
  })
  await page.start()
  atEnd(t, () => page.stop())
  const joins = (source: string, pod: number) =>
    page.take(eventOf(source, 'joined the fleet', { now: Date.now(), pod }))
  const origin = `http://127.0.0.1:${page.port()}`
  const scene = async () => (await call('GET', `${origin}/dev/scene`)).body as unknown as Scene
  return { url, origin, scene, first, second, isReady, joins }
}

const DEMO = 'v1/sessions/demo'

test('each device has a pod of its own, and another while that is not ready; the answer names the pod', async (t) => {
  const { origin, first, second, isReady } = await pageOn(t)
  const podOf = async (device: string) => {
    const answer = await fetch(`${origin}/devices/${device}/${DEMO}`)
    return { status: answer.status, pod: answer.headers.get('x-fleetline-pod') }
  }
  assert.deepEqual(await podOf('laptop'), { status: 200, pod: 'pod-1' })
  assert.deepEqual(await podOf('phone'), { status: 200, pod: 'pod-2' })
  first.state.standing = { state: 'starting' }
  assert.deepEqual(await podOf('laptop'), { status: 200, pod: 'pod-2' })
  second.state.standing = { ...second.ready, state: 'paused', untilMs: 0 }
  const { status, body } = await call('GET', `${origin}/devices/laptop/${DEMO}`)
  assert.equal(status, 503)
  assert.equal((body['error'] as { code: string }).code, 'unavailable')
  first.state.standing = first.ready
  assert.deepEqual(await podOf('phone'), { status: 200, pod: 'pod-1' })
  isReady.now = false // the session does not exist yet; a device gets 503, or it would give up
  assert.deepEqual(await podOf('phone'), { status: 503, pod: null })
})

test('a device receives messages as they come, and its stream is cut when its pod is paused', async (t) => {
  const { origin, first } = await pageOn(t)
  const followed = await readEvents(t, `${origin}/devices/laptop/${DEMO}/events?after=0`)
  await call('POST', `${origin}/devices/phone/${DEMO}/messages`, { text: 'hello' })
  await eventually(() => assert.match(JSON.stringify(followed.items), /hello/), { what: 'the message' })
  let hasEnded = false
  void followed.ended.then(() => (hasEnded = true))
  await call('POST', `${origin}/dev/pods/pod-1/pause`)
  assert.deepEqual(first.state.asked, ['pause'])
  await eventually(() => assert.ok(hasEnded), { what: 'the cut' })
})

test('the score is counted in the log: messages that are deleted there are lost', async (t) => {
  const { url, origin, scene } = await pageOn(t)
  for (const device of ['laptop', 'phone'])
    await call('POST', `${origin}/devices/${device}/${DEMO}/messages`, { text: device })
  const untilScore = (expected: object) =>
    eventually(async () => assert.deepEqual((await scene()).score, expected), { what: 'the score' })
  await untilScore({ acked: 2, lost: 0, doubled: 0 })
  const database = await openDatabase(t, url)
  const taken = `delete from fleetline.messages where seq = 2 returning seq`
  assert.equal(valueOf(await database.transaction((query) => query(taken)), 'not run').length, 1)
  await untilScore({ acked: 2, lost: 1, doubled: 0 })
  const forgotten = `update fleetline.sessions set alias = null returning id`
  assert.equal(valueOf(await database.transaction((query) => query(forgotten)), 'not run').length, 1)
  await untilScore({ acked: 2, lost: 2, doubled: 0 })
})

test('the scene shows each pod as the fleet knows it; actions that are not possible are rejected', async (t) => {
  const { origin, scene, first, second, joins } = await pageOn(t)
  const { body } = await call('GET', `http://127.0.0.1:${first.ready.ports.admin}/v1/pods`)
  const rows = body['pods'] as readonly { readonly name: string; readonly pod: number }[]
  for (const { name, pod } of rows) joins(name, pod)
  const shown = await eventually(
    async () => {
      const { pods } = await scene()
      assert.ok(pods.every(({ number, beatAgeMs }) => number !== null && beatAgeMs !== null))
      return pods
    },
    { what: 'the pods' },
  )
  assert.deepEqual(
    shown.map(({ name, state }) => ({ name, state })),
    [
      { name: 'pod-1', state: 'ready' },
      { name: 'pod-2', state: 'ready' },
    ],
  )
  assert.equal((await call('POST', `${origin}/dev/pods/pod-2/kill`)).status, 200)
  assert.deepEqual({ first: first.state.asked, second: second.state.asked }, { first: [], second: ['kill'] })
  second.state.standing = { state: 'waiting', sinceMs: Date.now(), how: 'SIGKILL' }
  assert.equal((await scene()).pods[1]!.number, null, 'a process that has ended has no number')
  const refused = await call('POST', `${origin}/dev/pods/pod-2/pause`)
  assert.equal(refused.status, 409)
  assert.match(JSON.stringify(refused.body), /pod-2 is waiting/)
  assert.equal((await call('POST', `${origin}/dev/pods/pod-9/kill`)).status, 404)
})

test('the scene shows the newest tasks, and how many are in each queue', async (t) => {
  const { scene, first } = await pageOn(t)
  await call('POST', `${first.gateway}/v1/tasks`, { machine: 'paint', input: 1 })
  const check = async () => {
    const { work } = await scene()
    assert.deepEqual(work?.machines, [
      {
        queue: 'default',
        name: 'paint',
        isEstimated: false,
        ready: 0,
        waiting: 0,
        claimed: 0,
        held: 1,
        dead: 0,
      },
    ])
    assert.deepEqual(
      work.tasks.map(({ machine, state }) => ({ machine, state })),
      [{ machine: 'paint', state: 'held' }],
    )
  }
  await eventually(check, { what: 'the work' })
})

test('S24: requests with another origin or another host name, and of proxies, are rejected, and so is every path that is not listed', async (t) => {
  const { origin, first, scene } = await pageOn(t)
  const { host, port } = new URL(origin)
  const status = async (method: string, path: string, headers: Record<string, string>) => {
    const asked = request(`${origin}${path}`, { method, headers, agent: false }).end()
    const [answer] = await once(asked, 'response')
    answer.resume()
    return answer.statusCode as number
  }
  const kill = (headers: Record<string, string>) => status('POST', '/dev/pods/pod-1/kill', headers)
  assert.equal(await kill({ origin: 'https://example.com' }), 403)
  assert.equal(await kill({ origin: 'http://localhost:3000' }), 403)
  assert.equal(await kill({ origin: 'null' }), 403)
  assert.equal(await kill({ host: 'example.com' }), 403)
  for (const name of ['x-forwarded-for', 'forwarded', 'via'])
    assert.equal(await kill({ [name]: '127.0.0.1' }), 403, name)
  const asOldNginxSends = `POST /dev/pods/pod-1/kill HTTP/1.0\r\nhost: ${host}\r\n\r\n`
  assert.match(await sayRaw(Number(port), asOldNginxSends), /^HTTP\/1\.1 403 /)
  assert.deepEqual(first.state.asked, [])
  assert.equal(await kill({ origin: `http://${host}` }), 200)
  for (const path of [
    '/dev/pods/pod-1/kill',
    '/dev/chaos/on',
    '/../package.json',
    '/page.ts',
    '/devices/tv/v1/sessions',
  ])
    assert.equal(await status('GET', path, {}), 404, path)
  await scene() // counts as watching: chaos ends when nobody watches
  assert.equal(await status('POST', '/dev/chaos/on', {}), 200)
  assert.equal((await scene()).isChaos, true)
  await call('POST', `${origin}/dev/chaos/off`)
})

test('the page comes with its files, and may run no other scripts', async (t) => {
  const { origin } = await pageOn(t)
  const page = await fetch(origin)
  assert.match(page.headers.get('content-security-policy')!, /default-src 'none'; script-src 'self';/)
  const names = Array.from((await page.text()).matchAll(/(?:src|href)="(\/[^"]+)"/g), ([, name]) => name!)
  assert.deepEqual(names.toSorted(), ['/page.css', '/page.js'])
  for (const name of names) assert.equal((await fetch(`${origin}${name}`)).status, 200, name)
})
