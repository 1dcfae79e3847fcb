// The proxies of docs/guides/secure.md, with the files of the guide: nginx and caddy (Debian's) terminate TLS in front of two
// pods. Readers follow a session through the proxy, over event streams and over sockets. A reply arrives word by word. The pod that
// writes it is killed, and the reply continues on the other pod and is stored once (E1). When the readers leave, the proxies leave the
// pods. Keys, CORS and the origins of sockets are the business of the pods behind the proxy (S16, S36).
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test, type TestContext } from 'node:test'
import { connect, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { createClient, type Session } from '@fleetline/client'
import type { FollowedFrame, Page } from '@fleetline/protocol'
import { addressOf } from '../../src/door/address.ts'
import { withDirectory } from '../../src/cli/keys/directory.ts'
import { createOutput } from '../../src/cli/output.ts'
import { addressesOf } from '../../src/lib/hosts.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { needPrograms } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { blocksIn } from '../support/guide.ts'
import { call } from '../support/http.ts'
import { OF_CLUSTER } from '../support/pod.ts'
import { APP, startPod } from '../support/pods.ts'
import { runProgram } from '../support/program.ts'
import { openText } from '../support/reader.ts'
import { refusedHandshake, socketOn } from '../support/socket.ts'

const PAGE = readFileSync(join(import.meta.dirname, '../../../../docs/guides/secure.md'), 'utf8')
const ORIGIN = 'https://app.example.com'
const HOSTS = ['127.0.0.1', '127.0.0.2'] as const // one operator port for both pods, as in the file of caddy
const READERS = 4 // of each kind, through each proxy
const SILENT = createOutput({ write: () => true }, { write: () => true }, false)
const REAL = { FLEETLINE_TTL_MS: '5000', FLEETLINE_BEAT_MS: '1000' }
const PATIENCE = { patienceMs: 60_000 }

type Certificate = { readonly cert: string; readonly key: string }
type Ports = { readonly front: number; readonly pods: number; readonly operators: number }
type Wanted = { readonly folder: string; readonly file: string; readonly ports: Ports }

/** How to run each proxy with the file of the guide, as whoever runs the tests, on a free port. */
const PROXIES = {
  nginx: {
    language: 'nginx',
    start: (t: TestContext, { folder, file, ports }: Wanted) => {
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      const lines = [
        ...(process.getuid!() === 0 ? ['user root;'] : []),
        `pid ${join(folder, 'nginx.pid')};`,
        'daemon off;',
        'master_process off;', // one process, which ends with the test
        'events {}',
        'http {',
        'access_log off;',
        ...temporary.map((name) => `${name}_temp_path ${join(folder, name)};`),
        file.replace('listen 443', `listen 127.0.0.1:${ports.front}`),
        '}',
      ]
      const path = join(folder, 'nginx.conf')
      writeFileSync(path, lines.join('\n'))
      return runProgram(t, path, { by: ['/usr/sbin/nginx', '-e', 'stderr', '-p', folder, '-c'] })
    },
  },
  caddy: {
    language: 'caddyfile',
    start: (t: TestContext, { folder, file, ports }: Wanted) => {
      const own = '{\n\tadmin off\n\tauto_https off\n}\n'
      const path = join(folder, 'Caddyfile')
      writeFileSync(path, own + file.replace('fleet.example.com', `https://localhost:${ports.front}`))
      return runProgram(t, path, {
        by: ['/usr/bin/caddy', 'run', '--adapter', 'caddyfile', '--config'],
        env: { XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
      })
    },
  },
} as const
const NAMES = Object.keys(PROXIES) as (keyof typeof PROXIES)[]

before(() => needPrograms({ nginx: 'nginx', caddy: 'caddy', openssl: 'openssl' }))

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-proxy-'))
  chmodSync(folder, 0o755)
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Makes a certificate that this process trusts. */
function certificateIn(folder: string): Certificate {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,DNS:fleet.example.com']
  execFileSync('openssl', ['req', '-x509', ...kind, ...names, '-keyout', key, '-out', cert], {
    stdio: 'pipe',
  })
  setDefaultCACertificates([...getCACertificates(), readFileSync(cert, 'utf8')])
  return { cert, key }
}

/** Starts the proxy with the file of the guide. Resolves to its URL when it passes requests on. */
async function proxyFor(t: TestContext, name: keyof typeof PROXIES, pods: Omit<Ports, 'front'>) {
  const folder = folderFor(t)
  const { cert, key } = certificateIn(folder)
  const { language, start } = PROXIES[name]
  const file = blocksIn(PAGE).find((block) => block.language === language)!.text
  const ports = { ...pods, front: await freePort() }
  const here = file
    .replaceAll('/etc/fleetline/tls/cert.pem', cert)
    .replaceAll('/etc/fleetline/tls/key.pem', key)
    .replaceAll('10.0.0.11:4400', `${HOSTS[0]}:${ports.pods}`)
    .replaceAll('10.0.0.12:4400', `${HOSTS[1]}:${ports.pods}`)
    .replaceAll('4401', String(ports.operators))
  const program = start(t, { folder, file: here, ports })
  const url = `https://localhost:${ports.front}`
  const isUp = async () => assert.ok((await fetch(`${url}/v1/openapi.json`)).ok)
  await eventually(isUp, { what: `${name} to pass requests on`, details: program.output })
  return { url, port: ports.front }
}

/** Two pods, on two addresses of this machine. Nobody is let in without a key. */
async function podsFor(t: TestContext, url: string) {
  const ports = { pods: await freePort('0.0.0.0'), operators: await freePort('0.0.0.0') }
  const settings = {
    ...REAL,
    FLEETLINE_PORT: String(ports.pods),
    FLEETLINE_OPERATOR_PORT: String(ports.operators),
    FLEETLINE_ALLOW_INSECURE: OF_CLUSTER,
    FLEETLINE_CORS_ORIGINS: ORIGIN,
  }
  const start = (host: string) =>
    startPod(t, url, { ...settings, FLEETLINE_HOST: host, FLEETLINE_POD_NAME: host }, APP)
  const pods = await Promise.all(HOSTS.map(start))
  const programs = new Map(HOSTS.map((host, index) => [host as string, pods[index]!.program]))
  return { ports, programs }
}

async function keysFor(url: string): Promise<{ readonly key: string; readonly operator: string }> {
  return withDirectory({ flags: { databaseUrl: url }, output: SILENT }, async (directory) => {
    const { key } = await directory.createKey({ tenant: 'dev', name: 'backend' })
    return { key, operator: (await directory.createKey({ name: 'prometheus' })).key }
  })
}

type Front = { readonly url: string; readonly port: number }
type Followed = { readonly url: string; readonly key: string; readonly session: string }

/** Opens them one after the other, so that the proxy divides them evenly: each pod gets some. */
async function readersFor(t: TestContext, followed: Followed) {
  const readers: Awaited<ReturnType<typeof readerFor>>[] = []
  while (readers.length < READERS) readers.push(await readerFor(t, followed))
  return readers
}

/** A device that follows the session through the proxy, and whether its connection was ever lost. */
async function readerFor(t: TestContext, { url, key, session: id }: Followed) {
  const client = createClient({ url, token: key })
  atEnd(t, () => client.close())
  const session = client.session(id)
  let wasLost = false
  session.subscribe(() => {
    if (['stale', 'offline'].includes(session.get().connection)) wasLost = true
  })
  await session.ready
  return { session, wasLost: () => wasLost, close: client.close }
}

/** A program that follows the session over a socket through the proxy. When the socket ends, it connects again and resumes. */
async function socketReaderFor(t: TestContext, { url, key, session }: Followed) {
  const frames: FollowedFrame[] = []
  const items = () => frames.flatMap((frame) => (frame.type === 'messages' ? frame.items : []))
  let [losses, isOver] = [0, false]
  const follow = async () => {
    const socket = await socketOn(t, url, { hello: { type: 'hello', token: key } })
    socket.ws.on('message', (data) => {
      const frame = JSON.parse((data as Buffer).toString()) as FollowedFrame
      if (frame.cursor !== undefined) frames.push(frame)
    })
    const last = frames.at(-1)
    const joined = await socket.ask({
      type: 'join',
      session,
      ...(last ? { cursor: last.cursor } : { after: 0, epoch: 1 }),
    })
    assert.ok(joined.type === 'joined', JSON.stringify(joined))
    assert.equal(joined.from, items().at(-1)?.seq ?? 0)
    return socket
  }
  let socket = await follow()
  const keep = async () => {
    for (;;) {
      await socket.closed
      if (isOver) return
      losses += 1
      socket = await eventually(follow, { what: 'another socket', ...PATIENCE })
    }
  }
  const kept = keep()
  return {
    items,
    open: (turn: string) => openText(frames, turn).trim(),
    wasLost: () => losses > 0,
    send: (text: string) => {
      const message = { id: randomUUID(), parts: [{ type: 'text', text }] }
      return socket.ask({ type: 'send', session, message })
    },
    /** A proxy that ends silent connections would have ended this one before its tick. */
    tick: async () => assert.ok(await socket.next('tick')),
    close: async () => {
      isOver = true
      socket.ws.close()
      await kept
    },
  }
}

async function socketReadersFor(t: TestContext, followed: Followed) {
  const readers: Awaited<ReturnType<typeof socketReaderFor>>[] = []
  while (readers.length < READERS) readers.push(await socketReaderFor(t, followed))
  return readers
}

function textsOf(session: Session): string[] {
  return session
    .get()
    .messages.map(({ parts }) => parts.map(({ text }) => (typeof text === 'string' ? text : '')).join(''))
}

/** What pods refuse is refused through the proxy, too; the proxy itself refuses old versions of TLS. */
async function refusals(t: TestContext, { url, port }: Front, key: string): Promise<void> {
  const refused = await call('GET', `${url}/v1/sessions`)
  assert.equal(refused.status, 401)
  assert.match(JSON.stringify(refused.body), /"code":"unauthenticated"/)

  const preflight = async (origin: string) => {
    const headers = { origin, 'access-control-request-method': 'POST' }
    const answer = await fetch(`${url}/v1/tokens`, { method: 'OPTIONS', headers })
    assert.equal(answer.status, 204)
    assert.equal(answer.headers.get('access-control-allow-credentials'), null)
    return answer.headers.get('access-control-allow-origin')
  }
  assert.equal(await preflight(ORIGIN), ORIGIN)
  assert.equal(await preflight('https://other.example.com'), null)

  const { status, text } = await refusedHandshake(`${url}/v1/socket`, {
    headers: { origin: 'https://other.example.com' },
  })
  assert.deepEqual([status, JSON.parse(text).error.code], [403, 'forbidden'])
  for (const origin of [ORIGIN, url]) {
    const socket = await socketOn(t, url, { headers: { origin }, hello: { type: 'hello', token: key } })
    await socket.next('welcome')
    socket.ws.close()
  }

  const versions = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
  const [error] = await once(connect({ port, host: 'localhost', ...versions }), 'error')
  assert.equal((error as NodeJS.ErrnoException).code, 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION')
}

test('E1 S16 S36: through both proxies pods check keys and origins, and a reply arrives word by word and outlives its pod', async (t) => {
  const database = await databaseFor(t)
  const { ports, programs } = await podsFor(t, database)
  const { key, operator } = await keysFor(database)
  const fronts = await Promise.all(NAMES.map((name) => proxyFor(t, name, ports)))
  for (const front of fronts) await refusals(t, front, key)
  const at = `${fronts[0]!.url}/v1/sessions`
  const session = (await call('POST', at, { agent: 'parrot' }, key)).body['session'] as string
  const groups = await Promise.all(fronts.map(({ url }) => readersFor(t, { url, key, session })))
  const socketGroups = await Promise.all(fronts.map(({ url }) => socketReadersFor(t, { url, key, session })))
  const all = (text: string) => () => {
    for (const reader of groups.flat()) assert.equal(textsOf(reader.session)[1]?.trim(), text)
    const turn = groups[0]![0]!.session.get().turn!.id
    for (const reader of socketGroups.flat()) assert.equal(reader.open(turn), text)
  }
  // The agent says the next word when the readers have this one, so a proxy that holds back words does not pass.
  const folder = folderFor(t)
  const [first, second] = ['first', 'second'].map((file) => join(folder, file)) as [string, string]
  const asked = `one until:${first} two until:${second} three`
  const senders = groups.map(([reader]) => reader!.session)
  await senders[0]!.send(asked).sent
  await eventually(all('one'), { what: 'the first word' })
  writeFileSync(first, '')
  await eventually(all('one two'), { what: 'the second word' })

  const killed = programs.get(senders[0]!.get().turn!.pod!)!
  const killedMs = performance.now()
  killed.kill('SIGKILL')
  await killed.ended
  for (const { url } of fronts.flatMap((front) => Array<typeof front>(10).fill(front))) {
    const { status } = await call('GET', `${url}/v1/sessions/${session}`, undefined, key)
    assert.equal(status, 200, `${url} after the kill`)
  }
  writeFileSync(second, '')
  await eventually(all('one two three'), { what: 'the rest of the reply', ...PATIENCE })
  t.diagnostic(`figure whole_s_after_kill ${(performance.now() - killedMs) / 1_000}`)
  for (const group of [...groups, ...socketGroups])
    assert.ok(
      group.some(({ wasLost }) => wasLost()),
      'each proxy had a reader on the killed pod',
    )
  for (const sender of senders) {
    const { turn } = await sender.send('again').sent
    const isDone = () => assert.deepEqual([sender.get().turn?.id, sender.get().turn?.state], [turn, 'done'])
    await eventually(isDone, { what: 'a reply of the other pod', ...PATIENCE })
  }
  for (const [sender] of socketGroups) {
    const ack = await sender!.send('again')
    assert.ok(ack.type === 'ack', JSON.stringify(ack))
    const isAnswered = () => assert.equal(sender!.items().at(-1)!.turn, ack.turn)
    await eventually(isAnswered, { what: 'a reply to a message of a socket', ...PATIENCE })
  }
  const seqs = Array.from({ length: 10 }, (_, index) => index + 1)
  for (const reader of socketGroups.flat()) {
    const isWhole = () =>
      assert.deepEqual(
        reader.items().map(({ seq }) => seq),
        seqs,
      )
    await eventually(isWhole, { what: 'all messages over a socket' })
    await reader.tick()
  }
  for (const reader of [...groups.flat(), ...socketGroups.flat()]) await reader.close()
  const [survivor] = HOSTS.filter((host) => programs.get(host) !== killed)
  const nobodyReads = async () => {
    const headers = { authorization: `Bearer ${operator}` }
    const answer = await fetch(`http://${survivor}:${ports.operators}/metrics`, { headers })
    const text = await answer.text()
    assert.match(text, /^fleetline_followers 0$/m)
    assert.match(text, /^fleetline_sockets 0$/m)
  }
  await eventually(nobodyReads, { what: 'the proxies to leave with their readers' })
  const page = await call('GET', `${at}/${session}/messages`, undefined, key)
  const said = (page.body as unknown as Page).items.map(({ parts }) => String(parts[0]!['text']).trim())
  assert.deepEqual(said, [asked, 'one two three', ...Array<string>(8).fill('again')])
})

for (const name of NAMES)
  test(`${name} keeps connections to pods open, and names the address of the client`, async (t) => {
    const seen: Pick<IncomingMessage, 'headers' | 'httpVersion' | 'url'>[] = []
    const sockets = new Set<Socket>()
    const answer = createServer((incoming, outgoing) => {
      if (incoming.url === '/counted') sockets.add(incoming.socket)
      seen.push(incoming)
      outgoing.end('{}')
    })
    const port = await freePort('0.0.0.0')
    answer.listen(port, '0.0.0.0')
    await once(answer, 'listening')
    atEnd(t, () => answer.close().closeAllConnections())
    const { port: front } = await proxyFor(t, name, {
      pods: (answer.address() as AddressInfo).port,
      operators: port,
    })
    const ask = async () => {
      const headers = { 'x-forwarded-for': '203.0.113.9' } // a lie
      const options = { port: front, path: '/counted', localAddress: '127.0.0.9', headers, agent: false }
      const sent = request({ host: 'localhost', family: 4, ...options }).end()
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      await response.resume().toArray()
    }
    for (let n = 0; n < 6; n += 1) await ask()
    const asked = seen.filter(({ url }) => url === '/counted')
    assert.equal(asked.length, 6)
    assert.ok(sockets.size <= HOSTS.length, `${sockets.size} connections`)
    for (const { headers, httpVersion } of asked) {
      assert.equal(httpVersion, '1.1')
      const incoming = { headers, socket: { remoteAddress: '127.0.0.1' } }
      assert.equal(addressOf(incoming, addressesOf('127.0.0.1')!), '127.0.0.9')
    }
  })
