// S13: no URL that a tenant chooses for its agent leads into the operator's network, whatever its name server answers.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { AgentFault } from '../../src/agent/fault.ts'
import { createGuard, isPublic } from '../../src/agent/guard.ts'
import { connectorTo } from '../../src/agent/pin.ts'
import { Rejected } from '../../src/errors.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { hostsOf } from '../../src/lib/hosts.ts'
import { INSIDE, LOOPBACK } from '../support/addresses.ts'
import { manualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { nameServer } from '../support/name-server.ts'
import { callAt, socketServer } from '../support/webhook.ts'

/** A server on loopback that must not be reached. */
const trap = (t: TestContext) => socketServer(t, (socket) => socket.end('HTTP/1.1 204 No Content\r\n\r\n'))

const blocked = (error: unknown) => {
  assert.ok(error instanceof AgentFault, String(error))
  assert.equal(error.code, 'agent_blocked', error.message)
  assert.equal(error.isFinal, true, error.message)
  assert.match(error.message, /FLEETLINE_AGENT_HOSTS/)
  return true
}

test('S13: an internal address is blocked however it is written, and reached once an operator opens it', async (t) => {
  const [{ sockets, port }, clock] = [await trap(t), systemClock()]
  const guard = createGuard({ open: hostsOf('')!, clock })
  const here = LOOPBACK.map((host) => `http://${host}:${port}/`)
  const all = [...here, ...[...LOOPBACK, ...INSIDE].map((host) => `https://${host}/`)]
  assert.ok(new Set(all).size >= 60, `${new Set(all).size} URLs`)
  for (const url of all) {
    assert.throws(() => guard.check(new URL(url)), Rejected, url)
    await assert.rejects(callAt(url, { open: '' }), blocked, url)
  }
  assert.equal(sockets.length, 0)

  const same = here.filter((url) => /^(127\.0\.0\.1|localhost)$/.test(new URL(url).hostname))
  for (const url of same) await callAt(url, { open: '127.0.0.1' })
  assert.equal(sockets.length, same.length)
  assert.ok(same.length > 10, `${same.length} of them mean this machine`)
})

test('S13: a public host is called by https on port 443 only, an opened host by any scheme and port', () => {
  const may = (url: string, open = '') => {
    try {
      createGuard({ open: hostsOf(open)!, clock: systemClock() }).check(new URL(url))
      return true
    } catch (error) {
      assert.match((error as Error).message, /^url: must .*FLEETLINE_AGENT_HOSTS/)
      return false
    }
  }
  for (const host of ['agent.example', '8.8.8.8', '[2606:4700::1111]']) {
    const usual = [`https://${host}/`, `https://${host}:443/a?b`]
    const other = [`http://${host}/`, `https://${host}:8443/`, `http://${host}:443/`]
    for (const url of usual) assert.equal(may(url), true, url)
    for (const url of other) {
      assert.equal(may(url), false, url)
      assert.equal(may(url, `other.example, ${host.replace(/[[\]]/g, '')}`), true, url)
    }
  }
  assert.equal(may('http://10.1.2.3:8080/', '10.1.0.0/16'), true)
  assert.equal(may('http://10.2.2.3:8080/', '10.1.0.0/16'), false)
  assert.equal(may('http://agent.internal:8080/', '10.1.0.0/16'), true, 'its address may be in the range')
  assert.equal(may('http://agent.internal.example/', 'agent.internal'), false, 'names are exact')
  for (const address of ['8.8.8.8', '172.32.0.1', '2606:4700::1111'])
    assert.equal(isPublic(address), true, address)
})

test('S13: all addresses of a name are checked before one is called', async (t) => {
  const { sockets, port } = await trap(t)
  const zone: Readonly<Record<string, readonly string[]>> = {
    'private.test': ['10.0.0.1'],
    'loopback.test': ['127.0.0.1'],
    'mixed.test': ['8.8.8.8', '127.0.0.1'],
    'both.test': ['127.0.0.3', '127.0.0.1'],
    'metadata.test': ['169.254.169.254'],
    'six.test': ['::1'],
    'mixed-six.test': ['8.8.8.8', 'fd00::1'],
    'mapped.test': ['::ffff:7f00:1'],
    'nat64.test': ['64:ff9b::7f00:1'],
  }
  const server = await nameServer(t, (name) => zone[name] ?? (name === 'alias.test' ? ['nobody.test'] : []))
  const names = { nameServers: [server.address] }
  for (const name of Object.keys(zone)) {
    await assert.rejects(callAt(`https://${name}/`, { ...names, open: '' }), blocked, name)
    await assert.rejects(
      callAt(`http://${name}:${port}/`, { ...names, open: '192.168.0.0/16' }),
      blocked,
      name,
    )
  }
  assert.equal(sockets.length, 0)
  for (const name of ['nobody.test', 'alias.test'])
    await assert.rejects(callAt(`https://${name}/`, { ...names, open: '' }), { code: 'unreachable' })
  const both = (open: string) => callAt(`http://both.test:${port}/`, { ...names, open })
  await assert.rejects(both('127.0.0.1'), blocked)
  await both('127.0.0.1,127.0.0.3') // nobody listens on 127.0.0.3
  assert.equal(sockets.length, 1)
})

test('S13: a name whose address changes with every lookup is looked up once a call, and called where that was allowed', async (t) => {
  const { sockets: met, port } = await trap(t)
  const allowed = await socketServer(t, (socket) => socket.end('HTTP/1.1 204 No Content\r\n\r\n'), {
    host: '127.0.0.2',
    port,
  })
  const server = await nameServer(t, (_, nth) => [nth % 2 === 0 ? '127.0.0.2' : '127.0.0.1'])
  const call = () =>
    callAt(`http://rebind.test:${port}/`, { open: '127.0.0.2', nameServers: [server.address] })
  for (let round = 0; round < 5; round += 1) {
    await call()
    await assert.rejects(call(), blocked)
  }
  assert.equal(allowed.sockets.length, 5)
  assert.equal(met.length, 0)
  assert.equal(server.questions.filter((question) => question === 'A rebind.test').length, 10)
})

test('a connection to an address that was not checked is closed before anything is sent', async (t) => {
  const { sockets, port } = await trap(t)
  const connect = connectorTo(['127.0.0.2'], { timeout: 5_000, signal: new AbortController().signal })
  const target = { hostname: '127.0.0.1', protocol: 'http:', port: String(port) }
  const error = await new Promise((resolve) => connect(target, (...[failure]) => resolve(failure)))
  assert.equal((error as AgentFault).code, 'agent_blocked')
  await eventually(() => assert.ok(sockets[0]!.destroyed), { what: 'its end' })
  assert.equal(sockets[0]!.bytesRead, 0)
})

test('a host that was opened by name is called at the address that this machine finds', async (t) => {
  const { sockets, port } = await trap(t)
  const { address } = await nameServer(t, () => undefined)
  await callAt(`http://localhost:${port}/`, { open: 'localhost', nameServers: [address] })
  assert.equal(sockets.length, 1)
})

test('a call waits 5 s for silent name servers, and a call that is stopped waits no longer', async (t) => {
  const server = await nameServer(t, () => undefined)
  const [clock, ending] = [manualClock(), new AbortController()]
  const around = { open: '', nameServers: [server.address], clock }
  const late = callAt('https://slow.test/', around)
  const isLate = late.then(
    () => assert.fail('it has no address'),
    (error: Error) => error.message,
  )
  const stopped = callAt('https://stopped.test/', { ...around, signal: ending.signal })
  const isStopped = assert.rejects(stopped, /stopped/)
  await eventually(() => assert.equal(clock.sleepers, 2), { what: 'both to wait' })
  ending.abort(new Error('stopped'))
  await isStopped
  assert.equal(clock.sleepers, 1, 'the stopped call waits no longer')
  assert.equal(server.waiting(), 1, 'its lookup has ended, too')
  await clock.advance(4_999)
  assert.equal(clock.sleepers, 1, 'the other call waits')
  await clock.advance(1)
  assert.equal(clock.sleepers, 0)
  assert.match(await isLate, /\(ETIMEOUT\)/)
})

test('hosts are names, addresses and ranges; anything else is refused', () => {
  for (const text of ['', ' ', 'a.example', 'A.example,b_c', '10.0.0.0/8, ::1', 'fd00::/8', '1.2.3.4'])
    assert.ok(hostsOf(text), text)
  for (const text of [
    ',',
    'a,,b',
    '*.example',
    'a:80',
    'http://a',
    '127.1',
    '10.0.0.0/33',
    '::1/129',
    '10.0.0.0/8/8',
    'fe80::1%lo',
    '[::1]',
    'a b',
    '10.0.0.0/',
  ])
    assert.equal(hostsOf(text), undefined, text)
})
