// A client of a socket, as an application runs one. It keeps every frame that it receives.
import assert from 'node:assert/strict'
import { WebSocket } from 'ws'
import { SOCKET_PROTOCOL, type ClientFrame, type FollowedFrame, type ServerFrame } from '@fleetline/protocol'
import { atEnd, type Scope } from './cleanup.ts'
import { eventually } from './eventually.ts'

export type Closed = { readonly code: number; readonly reason: string }
export type Socket = Awaited<ReturnType<typeof socketOn>>

type Options = {
  readonly headers?: Readonly<Record<string, string>>
  readonly protocols?: readonly string[]
  readonly query?: string
  /** The first frame; null for none. */
  readonly hello?: object | null
}

/** Resolves when the socket is open. `gateway` is the URL of a pod. */
export async function socketOn(t: Scope, gateway: string, options: Options = {}) {
  const { headers = {}, protocols = [], query = '', hello = { type: 'hello' } } = options
  const url = `${gateway.replace(/^http/, 'ws')}/v1/socket${query}`
  const ws = new WebSocket(url, [SOCKET_PROTOCOL, ...protocols], { headers, perMessageDeflate: false })
  atEnd(t, () => ws.terminate())
  const frames: ServerFrame[] = []
  const closed = new Promise<Closed>((resolve) =>
    ws.on('close', (code, reason) => resolve({ code, reason: String(reason) })),
  )
  ws.on('message', (data) => frames.push(JSON.parse((data as Buffer).toString()) as ServerFrame))
  ws.on('error', () => undefined) // the end is looked at in `closed`
  await new Promise<void>((resolve, reject) => {
    ws.once('open', resolve)
    ws.once('unexpected-response', (_, answer) => reject(new Error(`Answered with ${answer.statusCode}`)))
    ws.once('error', reject)
  })
  let sent = 0
  const send = (frame: object) => ws.send(JSON.stringify(frame))
  const find = <Type extends ServerFrame['type']>(type: Type, from = 0) =>
    frames.slice(from).find((frame) => frame.type === type) as
      | Extract<ServerFrame, { type: Type }>
      | undefined
  if (hello) send(hello)
  return {
    ws,
    frames,
    closed,
    send,
    /** Resolves to the first frame of this type, from a place in `frames` on. */
    next: <Type extends ServerFrame['type']>(type: Type, from = 0) =>
      eventually(() => find(type, from) ?? assert.fail(`no ${type}`), {
        what: `a frame ${type}`,
        details: () => JSON.stringify(frames).slice(0, 2_000),
      }),
    /** Sends a command and resolves to its answer. */
    ask: async (
      command: Record<string, unknown> & { type: Exclude<ClientFrame['type'], 'hello' | 'ping'> },
    ) => {
      const cid = `c${(sent += 1)}`
      send({ cid, ...command })
      const answer = () => frames.find((frame) => 'cid' in frame && frame.cid === (command['cid'] ?? cid))
      return eventually(() => answer() ?? assert.fail(), { what: `the answer to ${command.type}` })
    },
    followed: () => frames.filter((frame): frame is FollowedFrame => 'cursor' in frame),
    cut: () => ws.terminate(),
  }
}

/** Resolves to the answer to a handshake that is refused. */
export async function refusedHandshake(
  url: string,
  { headers = {}, protocols = [SOCKET_PROTOCOL] }: Omit<Options, 'hello' | 'query'> = {},
): Promise<{ readonly status: number; readonly headers: object; readonly text: string }> {
  const ws = new WebSocket(url.replace(/^http/, 'ws'), [...protocols], { headers })
  ws.on('error', () => undefined)
  return new Promise((resolve, reject) => {
    ws.on('open', () => reject(new Error('The handshake was accepted')))
    ws.on('unexpected-response', async (_, answer) => {
      let text = ''
      for await (const piece of answer.setEncoding('utf8')) text += piece as string
      resolve({ status: answer.statusCode!, headers: answer.headers, text })
    })
  })
}
