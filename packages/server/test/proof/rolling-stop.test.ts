// R1: pods behind HAProxy (Debian's) are stopped and replaced one after the other, under a steady load. HAProxy checks each pod
// every second. No request fails: a pod that stops first says so on /readyz, and answers until the balancer sends it nothing more.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadConfig } from '../../src/config.ts'
import { createPod, task } from '../../src/index.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { needPrograms } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { silentLog } from '../support/log.ts'
import { CLOSED } from '../support/pod.ts'
import { startPod } from '../support/pods.ts'
import { proofSize } from '../support/proof-size.ts'
import { proxyFor } from '../support/proxy.ts'

const ROUNDS = proofSize({ full: 3, quick: 1 })
const PODS = 2
const EVERY_MS = 20

type Ports = { readonly gateway: number; readonly admin: number }

async function balancerFor(t: TestContext, pods: readonly Ports[]): Promise<string> {
  needPrograms({ haproxy: 'haproxy' })
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-haproxy-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'haproxy.cfg')
  const servers = pods.map(
    ({ gateway, admin }, n) =>
      `  server pod${n} 127.0.0.1:${gateway} check port ${admin} inter 1s fall 1 rise 1`,
  )
  const lines = [
    'defaults',
    '  mode http',
    '  timeout connect 2s',
    '  timeout client 30s',
    '  timeout server 30s',
    '  retries 0',
    'frontend front',
    `  bind 127.0.0.1:${port}`,
    '  default_backend pods',
    'backend pods',
    '  option httpchk GET /readyz',
    '  http-check send hdr Host localhost',
    ...servers,
    '',
  ]
  writeFileSync(file, lines.join('\n'))
  const balancer = spawn('/usr/sbin/haproxy', ['-db', '-f', file], { stdio: 'ignore' })
  atEnd(t, async () => {
    balancer.kill('SIGKILL')
    if (balancer.exitCode === null && balancer.signalCode === null) await once(balancer, 'exit')
  })
  return `http://127.0.0.1:${port}`
}

test('R1: rolling stops behind HAProxy fail no request', async (t) => {
  const url = await databaseFor(t)
  const ports: Ports[] = []
  while (ports.length < PODS) ports.push({ gateway: await freePort(), admin: await freePort() })
  const start = ({ gateway, admin }: Ports) =>
    startPod(t, url, {
      FLEETLINE_PORT: String(gateway),
      FLEETLINE_OPERATOR_PORT: String(admin),
      FLEETLINE_UNREADY_MS: '5000',
      FLEETLINE_STOP_MS: '10000',
    })
  const pods = await Promise.all(ports.map(start))
  const front = await balancerFor(t, ports)
  const send = (path: string, body: object) =>
    fetch(`${front}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const { session } = await eventually(
    async () => {
      const answer = await send('/v1/sessions', {})
      assert.equal(answer.status, 201)
      return (await answer.json()) as { session: string }
    },
    { what: 'the balancer to know the pods' },
  )
  const seen = { sent: 0, refused: [] as string[], isOver: false }
  const one = async () => {
    seen.sent += 1
    const said = await send(`/v1/sessions/${session}/messages`, { text: 'hello' }).then(
      async (answer) => (await answer.text(), answer.ok ? undefined : `status ${answer.status}`),
      (error: unknown) => String(error),
    )
    if (said !== undefined) seen.refused.push(said)
  }
  const load = (async () => {
    const under: Promise<void>[] = []
    for (; !seen.isOver; await sleep(EVERY_MS)) under.push(one())
    await Promise.all(under)
  })()
  await sleep(1_000)
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [n, at] of ports.entries()) {
      const { program } = pods[n]!
      program.kill('SIGTERM')
      assert.deepEqual(await program.ended, { code: 0, signal: null }, program.output())
      pods[n] = await start(at)
      await sleep(3_000) // until the balancer sends requests to it again
    }
  seen.isOver = true
  await load
  t.diagnostic(`figure requests ${seen.sent}`)
  t.diagnostic(`figure stops ${ROUNDS * PODS}`)
  t.diagnostic(`figure refused ${seen.refused.length}`)
  assert.deepEqual(seen.refused, [])
})

const TASK = task('long', async () => {
  await sleep(60_000, undefined, { ref: false })
})

test('R1: a stop ends by its deadline even if PostgreSQL does not answer', async (t) => {
  for (const running of [0, 20]) {
    const url = await databaseFor(t)
    const proxy = await proxyFor(t, url)
    const limits = { unreadyMs: '1000', drainMs: '2000', stopMs: '4000', transactionDeadlineMs: '5000' }
    const flags = { databaseUrl: proxy.url, port: '0', operatorPort: '0', ...CLOSED, ...limits }
    const pod = createPod(loadConfig({ environment: {}, flags }), { log: silentLog(), tasks: [TASK] })
    await pod.start()
    await pod.enqueueAll(Array.from({ length: running }, () => ({ machine: 'long' })))
    await sleep(1_000)
    const hole = setInterval(() => proxy.stall(), 20)
    const startMs = performance.now()
    await pod.stop().catch(() => undefined) // the error names the parts that were late
    const seconds = (performance.now() - startMs) / 1_000
    clearInterval(hole)
    t.diagnostic(`figure stop_s_with_${running}_tasks ${seconds.toFixed(1)}`)
    assert.ok(seconds < 7, `${seconds} s`)
  }
})
