// A client of a socket that sends bytes instead of frames: for what no library would send, and to read as slowly as a test wants.
import { once } from 'node:events'
import { connect } from 'node:net'
import { SOCKET_PROTOCOL } from '@fleetline/protocol'
import { atEnd, type Scope } from './cleanup.ts'

export const OPCODES = { more: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const
type Piece = { readonly opcode: number; readonly isLast?: boolean; readonly isMasked?: boolean }
type Options = {
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
  /** Sent in the same packet, behind the handshake. */
  readonly behind?: Buffer
}
export type RawSocket = Awaited<ReturnType<typeof rawSocketOn>>

/** A frame of a client, or a piece of one. */
export function pieceOf(payload: Buffer | string, { opcode, isLast = true, isMasked = true }: Piece): Buffer {
  const data = Buffer.from(payload)
  const long = data.length > 65_535 ? 8 : data.length > 125 ? 2 : 0
  const head = Buffer.alloc(2 + long)
  head[0] = (isLast ? 0x80 : 0) | opcode
  head[1] = (isMasked ? 0x80 : 0) | (long === 8 ? 127 : long === 2 ? 126 : data.length)
  if (long === 2) head.writeUInt16BE(data.length, 2)
  if (long === 8) head.writeBigUInt64BE(BigInt(data.length), 2)
  return Buffer.concat([head, Buffer.alloc(isMasked ? 4 : 0), data]) // a mask of zeros changes nothing
}

export function textOf(frame: object): Buffer {
  return pieceOf(JSON.stringify(frame), { opcode: OPCODES.text })
}

export function handshakeOf({ headers = {}, path = '/v1/socket' }: Options = {}): string {
  const all = {
    host: 'localhost',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    'sec-websocket-protocol': SOCKET_PROTOCOL,
    ...headers,
  }
  const lines = Object.entries(all).flatMap(([name, value]) => (value === '' ? [] : [`${name}: ${value}`]))
  return [`GET ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n')
}

/** Resolves when the handshake is answered. */
export async function rawSocketOn(t: Scope, port: number, { behind, ...options }: Options = {}) {
  const socket = connect(port, '127.0.0.1')
  atEnd(t, () => socket.destroy())
  socket.on('error', () => undefined) // what came before it is what counts
  socket.setNoDelay(true)
  let heard = Buffer.alloc(0)
  let headers: string | undefined
  const closed = once(socket, 'close')
  const opened = Promise.withResolvers<void>()
  const frames: { readonly opcode: number; readonly data: Buffer }[] = []
  const take = () => {
    for (let taken = takeFrame(heard); taken; taken = takeFrame(heard)) {
      heard = heard.subarray(taken.length)
      frames.push(taken)
    }
  }
  socket.on('data', (chunk: Buffer) => {
    heard = Buffer.concat([heard, chunk])
    const end = heard.indexOf('\r\n\r\n')
    if (headers === undefined && end >= 0) {
      headers = heard.subarray(0, end).toString()
      heard = heard.subarray(end + 4)
      opened.resolve()
    }
    if (headers?.startsWith('HTTP/1.1 101')) take()
  })
  socket.write(Buffer.concat([Buffer.from(handshakeOf(options)), behind ?? Buffer.alloc(0)]))
  await Promise.race([opened.promise, closed])
  return {
    socket,
    headers: headers ?? '',
    write: (bytes: Buffer) => socket.write(bytes),
    texts: () =>
      frames.flatMap(({ opcode, data }) =>
        opcode === OPCODES.text ? [JSON.parse(data.toString()) as Record<string, unknown>] : [],
      ),
    /** With which code the pod has closed it, if it has. */
    code: () => frames.find(({ opcode }) => opcode === OPCODES.close)?.data.readUInt16BE(0),
    reason: () =>
      frames
        .find(({ opcode }) => opcode === OPCODES.close)
        ?.data.subarray(2)
        .toString(),
    closed,
  }
}

function takeFrame(bytes: Buffer) {
  if (bytes.length < 2) return undefined
  const short = bytes[1]! & 127
  const start = short === 127 ? 10 : short === 126 ? 4 : 2
  if (bytes.length < start) return undefined
  const size =
    short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short
  if (bytes.length < start + size) return undefined
  return { opcode: bytes[0]! & 15, data: bytes.subarray(start, start + size), length: start + size }
}
