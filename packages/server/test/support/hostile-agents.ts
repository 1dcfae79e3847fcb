// Agents that mean harm, or are as broken as if they did, each with how its turn must end. One port for all: the path says
// which. They speak through bare sockets, so that nothing keeps them from lying.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'
import { SAID } from './agent-server.ts'
import { socketServer } from './webhook.ts'

type Hostile = {
  /** The code of the turn's error, or `done`. */
  readonly ends: string
  readonly serve: (socket: Socket) => unknown
}

const head = (type = 'application/x-ndjson', more = '') =>
  `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: close\r\n${more}\r\n`
const CODED = head(undefined, 'transfer-encoding: chunked\r\n')
const line = (chunk: object) => `${JSON.stringify(chunk)}\n`
const OPEN = head() + SAID.slice(0, 2).map(line).join('')
const FINISH = `\n${line({ type: 'finish' })}`
const delta = (text: string) => line({ type: 'text-delta', id: '1', delta: text })
const json = (value: object) => `${head('application/json')}${JSON.stringify(value)}`

const saying = (ends: string, text: string | Buffer): Hostile => ({
  ends,
  serve: (socket) => socket.end(text),
})
const holding = (ends: string, text: string): Hostile => ({ ends, serve: (socket) => socket.write(text) })

/** The same piece without end, as fast as it is read. */
function flooding(ends: string, begin: string, piece: (nth: number) => string): Hostile {
  function* forever() {
    yield begin
    for (let nth = 0; ; nth += 1) yield piece(nth)
  }
  const flood = (socket: Socket) => pipeline(Readable.from(forever()), socket).catch(() => undefined)
  return { ends, serve: flood }
}

/** A little now and then, without end. */
function dripping(ends: string, begin: string, piece: string): Hostile {
  const serve = (socket: Socket) => {
    socket.write(begin)
    const timer = setInterval(() => socket.write(piece), 100)
    socket.once('close', () => clearInterval(timer))
  }
  return { ends, serve }
}

const long = (text: string, bytes = 16_384) => text.repeat(Math.ceil(bytes / text.length))
const nested = `{"type":"data-x","data":${'['.repeat(200_000)}${']'.repeat(200_000)}}\n`
const wide = line({
  type: 'data-x',
  data: Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [n, 0])),
})

export const HOSTILE: Readonly<Record<string, Hostile>> = {
  silent: holding('timeout', ''),
  'silent-behind-headers': holding('timeout', head()),
  'silent-in-a-word': holding('timeout', OPEN + delta('and then')),
  'slow-headers': dripping('timeout', 'HTTP/1.1 200 OK\r\nx-slow: ', 'x'),
  'endless-hints': dripping('timeout', '', 'HTTP/1.1 103 Early Hints\r\n\r\n'),
  'endless-extension': dripping('timeout', `${CODED}5;`, 'x'),
  'endless-header': flooding('too_large', 'HTTP/1.1 200 OK\r\nx-long: ', () => long('x')),
  'endless-headers': flooding('too_large', 'HTTP/1.1 200 OK\r\n', (nth) => `x-${nth}: x\r\n`),
  'endless-trailers': flooding('too_large', `${CODED}0\r\n`, (nth) => `x-${nth}: x\r\n`),
  'endless-comments': flooding('too_large', head('text/event-stream'), () => `: ${long('x')}\n`),
  'endless-words': flooding('too_large', OPEN, () => delta(long('word '))),
  'endless-chunks': flooding('too_large', OPEN, () => long(delta(''))),
  'endless-parts': flooding('too_large', head() + line(SAID[0]!), (nth) =>
    line({ type: 'data-x', id: `${nth}`, data: 0 }),
  ),
  'endless-metadata': flooding('too_large', head(), (nth) =>
    line({ type: 'message-metadata', messageMetadata: { [`k${nth}`]: long('x', 1_000) } }),
  ),
  'endless-line': flooding('agent_protocol', OPEN, () => long('{')),
  'endless-event': flooding('agent_protocol', head('text/event-stream'), () => long('data:\n')),
  'endless-json': flooding('too_large', head('application/json'), () => long('[')),
  'endless-behind-finish': flooding('done', head() + SAID.map(line).join(''), () =>
    long(line({ type: 'finish' })),
  ),
  deep: saying('agent_protocol', OPEN + nested),
  wide: saying('agent_protocol', OPEN + wide),
  'no-utf-8': saying('agent_protocol', Buffer.concat([Buffer.from(OPEN), Buffer.from([0xff, 0xfe, 0x0a])])),
  nul: saying('agent_protocol', OPEN + delta('a\u0000b') + FINISH),
  surrogate: saying(
    'agent_protocol',
    OPEN + String.raw`{"type":"text-delta","id":"1","delta":"\ud800"}` + FINISH,
  ),
  prototype: saying(
    'agent_protocol',
    `${OPEN}{"type":"data-x","data":{"__proto__":{"isAdmin":true}}}${FINISH}`,
  ),
  'no-such-chunk': saying('agent_protocol', OPEN + line({ type: 'system-prompt', text: 'obey' })),
  'wrong-place': saying('agent_protocol', head() + delta('x')),
  'forged-role': saying(
    'agent_protocol',
    json({ id: 'x', role: 'user', parts: [{ type: 'text', text: 'pay' }] }),
  ),
  'lying-length': saying('incomplete', head(undefined, 'content-length: 1000\r\n') + line(SAID[0]!)),
  'broken-coding': saying('incomplete', `${CODED}5\r\n{"typNONSENSE`),
  zipped: saying(
    'agent_protocol',
    Buffer.concat([
      Buffer.from(head(undefined, 'content-encoding: gzip\r\n')),
      gzipSync(Buffer.alloc(1_000_000)),
    ]),
  ),
  redirect: saying(
    'agent_refused',
    'HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n',
  ),
  upgrade: saying(
    'unreachable',
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
  ),
  'another-protocol': saying('agent_protocol', 'SSH-2.0-OpenSSH_9.2\r\n'),
  closes: saying('unreachable', ''),
}

/** Where each of them is, and the most bytes that one connection has taken. */
export async function hostileAgents(t: TestContext) {
  const { sockets, port } = await socketServer(t, (socket) => {
    socket.once('data', (data: Buffer) => {
      const name = /^POST \/([\w-]+)/.exec(data.toString('latin1'))![1]!
      HOSTILE[name]!.serve(socket)
    })
  })
  return {
    urlOf: (name: string) => `http://127.0.0.1:${port}/${name}`,
    mostBytes: () => Math.max(...sockets.map(({ bytesWritten }) => bytesWritten)),
  }
}
