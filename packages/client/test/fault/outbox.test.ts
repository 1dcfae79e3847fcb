// A device sends messages while its fleet dies, is down and returns. The pods are OS processes behind one address.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { createClient, type Session } from '@fleetline/client'
import type { Page } from '@fleetline/protocol'
import { createFront } from '../../../server/src/cli/dev/front.ts'
import { systemRandom } from '../../../server/src/lib/random.ts'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { call, makeSession } from '../../../server/test/support/http.ts'
import { startPod } from '../../../server/test/support/pods.ts'
import { cuttableFront } from '../support/cuttable-front.ts'

async function fleetOn(t: TestContext) {
  const url = await databaseFor(t)
  let ports: number[] = []
  const [name, host] = ['front', '127.0.0.1']
  const front = createFront({ name, host, port: 0, random: systemRandom(), targets: () => ports })
  await front.start()
  atEnd(t, () => front.stop())
  const gateway = `http://${host}:${front.port()}`
  return {
    gateway,
    newPod: async () => {
      const pod = await startPod(t, url)
      ports = [Number(new URL(pod.gateway).port)]
      return pod
    },
    deviceOf: (session: string): Session => {
      const client = createClient({ url: gateway, random: () => 0.01 })
      atEnd(t, () => client.close())
      return client.session(session)
    },
    texts: async (session: string) => {
      const page = (await call('GET', `${gateway}/v1/sessions/${session}/messages`)).body as unknown as Page
      return page.items.map(({ id, parts }) => ({ id, text: parts[0]!['text'] }))
    },
  }
}

const until = (device: Session, what: string, is: () => unknown) =>
  eventually(() => assert.ok(is()), { what, details: () => JSON.stringify(device.get()) })

test('L3 L4: messages that are sent while every pod is down are stored once and in order when a pod is back', async (t) => {
  const fleet = await fleetOn(t)
  const first = await fleet.newPod()
  const { session } = await makeSession(fleet.gateway)
  const device = fleet.deviceOf(session)
  await device.send('before').sent
  await until(device, 'the echo', () => device.get().head === 1)
  first.program.kill()
  await until(device, 'the loss', () => device.get().connection !== 'live')
  const sends = ['one', 'two', 'three'].map((text) => device.send(text))
  assert.deepEqual(
    device.get().messages.map(({ seq, delivery }) => ({ seq, delivery })),
    [{ seq: 1, delivery: 'sent' }, ...sends.map(() => ({ seq: null, delivery: 'pending' }))],
  )
  await fleet.newPod()
  assert.deepEqual(await Promise.all(sends.map(({ sent }) => sent)), [{ seq: 2 }, { seq: 3 }, { seq: 4 }])
  await until(device, 'the echoes', () => device.get().head === 4 && device.get().connection === 'live')
  const shown = device.get().messages.map(({ id, parts }) => ({ id, text: parts[0]!['text'] }))
  assert.deepEqual(shown, await fleet.texts(session))
  assert.deepEqual(
    shown.slice(1),
    sends.map(({ id }, index) => ({ id, text: ['one', 'two', 'three'][index] })),
  )
})

test('L3 L4: fifty messages are stored once and in order over a socket that is cut five times, while two pods are killed', async (t) => {
  const url = await databaseFor(t)
  const pods = await Promise.all([startPod(t, url), startPod(t, url)])
  const { gateway, cut } = await cuttableFront(t, () => Number(new URL(pods.at(-1)!.gateway).port))
  const { session } = await makeSession(gateway)
  let [frames, requests] = [0, 0]
  class Counting extends WebSocket {
    override send(data: string) {
      if (data.includes('"type":"send"')) frames += 1
      super.send(data)
    }
  }
  const client = createClient({
    url: gateway,
    random: () => 0.01,
    WebSocket: Counting,
    fetch: (input, init) => {
      if (init?.method === 'POST') requests += 1
      return fetch(input, init)
    },
  })
  atEnd(t, () => client.close())
  const device = client.session(session)
  await device.ready
  const sent: Promise<{ readonly seq: number }>[] = []
  for (let batch = 0; batch < 5; batch += 1) {
    const sends = Array.from({ length: 10 }, (_, index) => device.send(`${10 * batch + index}`).sent)
    sent.push(...sends)
    await sends[3] // the others are on their way, or wait
    cut()
    if (batch === 1 || batch === 3) pods.pop()!.program.kill()
    if (batch === 2) pods.push(await startPod(t, url))
  }
  const seqs = await Promise.all(sent)
  const count = seqs.length
  assert.deepEqual(
    seqs.map(({ seq }) => seq),
    Array.from({ length: count }, (_, index) => index + 1),
  )
  await until(device, 'the echoes', () => device.get().head === count && device.get().connection === 'live')
  const shown = device.get().messages.map(({ delivery, parts }) => `${delivery} ${String(parts[0]!['text'])}`)
  assert.deepEqual(
    shown,
    Array.from({ length: count }, (_, index) => `sent ${index}`),
  )
  assert.ok(frames > requests, `${frames} over the socket, ${requests} over HTTP`)
  t.diagnostic(`${frames} over the socket, ${requests} over HTTP`)
})
