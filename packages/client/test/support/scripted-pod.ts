// A pod that answers as a test tells it, on a real socket of this machine, and a link to it on a clock that the test moves.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { WebSocketServer, type WebSocket as Peer } from 'ws'
import type { ClientFrame } from '@fleetline/protocol'
import { atEnd, type Scope } from '../../../server/test/support/cleanup.ts'
import { manualClock } from '../../../server/test/support/clock.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { createLink, type Followed } from '../../src/link.ts'
import { createTokens, type TokenSource } from '../../src/tokens.ts'

export type Asked = ClientFrame & { readonly cid: string; readonly session?: string; readonly token?: string }
export type Connected = {
  readonly peer: Peer
  readonly asked: Asked[]
  /** What it feeds to the client, by id; null is the inbox. */
  readonly fed: Set<string | null>
  readonly send: (frame: object) => void
  readonly isOpen: () => boolean
}
/** Null for no answer; undefined for the usual one. */
export type Script = (frame: Asked, connection: Connected) => object | null | undefined

/** `alias-N` names the session `ses_N`. */
export const idOf = (name: string) => name.replace('alias-', 'ses_')

/** As a pod does: a session is fed once on a socket, and each answer comes in the order of the commands. */
function usual(frame: Asked, { fed }: Connected): object {
  const { cid } = frame
  switch (frame.type) {
    case 'hello':
      return { type: 'welcome', user: null }
    case 'join':
      fed.add(idOf(frame.session))
      return { type: 'joined', cid, session: idOf(frame.session), facts: { head: 0 }, from: 0 }
    case 'leave':
      fed.delete(idOf(frame.session))
      return { type: 'ack', cid }
    case 'inbox':
      if (frame.on) fed.add(null)
      else fed.delete(null)
      return { type: 'ack', cid }
    case 'ping':
      return { type: 'pong' }
    case 'send':
    case 'stop':
    case 'regenerate':
    case 'edit':
    case 'read':
      return { type: 'ack', cid, done: frame.type }
  }
}

export async function podOf(t: Scope) {
  const [connections, raws]: [Connected[], Set<Socket>] = [[], new Set()]
  const state = { script: (() => undefined) as Script, isBlocked: false, most: 0, attempts: 0 }
  const open = () => connections.filter(({ isOpen }) => isOpen())
  const server = createServer((_, response) => response.writeHead(404).end())
  const sockets = new WebSocketServer({ noServer: true })
  server.on('connection', (raw) => {
    raws.add(raw)
    raw.on('error', () => undefined).once('close', () => raws.delete(raw))
  })
  server.on('upgrade', (request, raw, head) => {
    state.attempts += 1
    if (state.isBlocked) return void raw.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    sockets.handleUpgrade(request, raw, head, (peer) => {
      const connection: Connected = {
        peer,
        asked: [],
        fed: new Set(),
        send: (frame) => peer.send(JSON.stringify(frame)),
        isOpen: () => peer.readyState === peer.OPEN,
      }
      connections.push(connection)
      state.most = Math.max(state.most, open().length)
      peer.on('message', (data) => {
        const frame = JSON.parse((data as Buffer).toString()) as Asked
        connection.asked.push(frame)
        const answer = state.script(frame, connection)
        if (answer !== null) connection.send(answer ?? usual(frame, connection))
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.close()
    for (const raw of raws) raw.destroy()
  })
  const { port } = server.address() as AddressInfo
  return { url: `ws://127.0.0.1:${port}`, state, connections, open, raws }
}

export type Scene = Awaited<ReturnType<typeof sceneOn>>
type Options = {
  readonly token?: TokenSource
  readonly WebSocket?: typeof globalThis.WebSocket
}

export async function sceneOn(t: Scope, { token, WebSocket = globalThis.WebSocket }: Options = {}) {
  const [pod, clock] = [await podOf(t), manualClock()]
  const random = () => 0.5
  const tokens = createTokens({ source: token, clock, random })
  const link = createLink({ WebSocket, url: () => pod.url, tokens, clock, random })
  const followers: { readonly close: () => void }[] = []
  const follow = (name: string | null) => {
    const closing = new AbortController()
    const told = {
      name,
      taken: [] as string[],
      /** `begun` and `lost`, in order. */
      states: [] as string[],
      end: undefined as unknown,
      onEnd: () => {},
      close: () => closing.abort(),
    }
    const over = link.follow(
      {
        command: () => (name === null ? { type: 'inbox', on: true } : { type: 'join', session: name }),
        begin: () => void told.states.push('begun'),
        take: (frame: Followed) => {
          const { mark = 'none' } = frame as { readonly mark?: string }
          told.taken.push(mark)
          return mark !== 'hole'
        },
        lost: () => void told.states.push('lost'),
      },
      closing.signal,
    )
    void over.then((end) => {
      told.end = end
      told.onEnd()
    })
    followers.push(told)
    return told
  }
  const until = (what: string, is: () => unknown) =>
    eventually(() => assert.ok(is()), {
      what,
      details: () =>
        JSON.stringify({
          followers,
          sleepers: clock.sleepers,
          asked: pod.connections.map(({ asked }) => asked.map(({ type }) => type)),
        }),
    })
  /** Closes the link. Nothing may be left of it. */
  const close = async () => {
    for (const each of followers) each.close()
    link.close()
    await until('no socket and no timer', () => pod.raws.size === 0 && clock.sleepers === 0)
  }
  atEnd(t, close)
  return {
    ...pod,
    clock,
    link,
    follow,
    until,
    close,
    newest: () => pod.connections.at(-1)!,
    begun: (...which: { readonly states: readonly string[] }[]) =>
      until('it to begin', () => which.every(({ states }) => states.at(-1) === 'begun')),
    /** A frame of a session, or of the inbox. */
    frame: (name: string | null, mark: string) =>
      name === null ? { type: 'inbox', mark } : { type: 'turn', session: idOf(name), mark, cursor: mark },
  }
}
