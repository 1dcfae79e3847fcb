// The life of one socket: the client authenticates, sends commands, and gets what it follows. Guarantees:
//   S8   its caller authenticates within 5 s, or it is closed. A new token of the same user keeps it open
//   S9   it is closed when its caller loses access, and sends nothing while the pod cannot check that
//   S16  a frame that is too large, not JSON or not allowed closes it, with a code that says why
//   S17  a client that takes no byte for `stallMs` is disconnected. It resumes after the last frame that it has
// The door checks the caller; the gateway carries out the commands.
import type { RawData, WebSocket } from 'ws'
import { jsonTextFault, SOCKET_LIMITS } from '@fleetline/protocol'
import { BODY_JSON } from './json-body.ts'
import type { FrameFields } from './socket-route.ts'
import { greet, welcome } from './socket-hello.ts'
import {
  closeFor,
  endingOf,
  readingOf,
  type SocketEnding,
  type Handshake,
  type SocketLife,
  type SocketDeps,
} from './socket-life.ts'
import { createSocketWriter } from './socket-writer.ts'

export function serveSocket(deps: SocketDeps, ws: WebSocket, handshake: Handshake): void {
  const ending = endingOf(deps, ws, handshake)
  if (ending.signal.aborted) return
  const { signal } = ending
  const reading = readingOf(ws, signal)
  const writer = createSocketWriter({
    ws,
    raw: handshake.raw,
    clock: deps.clock,
    signal,
    stallMs: deps.stallMs,
    onFull: (isFull) => reading.pause('full', isFull),
    onStalled: ending.cutSlow,
  })
  const isOurs = handshake.route.dialect.tokenIn === undefined
  const say = (frame: object) => void (isOurs && writer.now(frame))
  const guest = guestOf(deps, ending, say)
  const life: SocketLife = {
    ...deps,
    ...handshake,
    ...ending,
    ws,
    reading,
    writer,
    say,
    hold: guest.hold,
    token: undefined,
    open: undefined,
    refreshing: false,
    held: [],
  }
  ws.once('close', deps.moving.enter('sockets', guest))
  if (signal.aborted) return // it came too late: the pod drains
  beat(life).catch(() => undefined) // aborted: the socket is over
  if (handshake.refused !== undefined) return closeFor(life, handshake.refused)
  ws.on('message', (data, isBinary) => takeMessage(life, data, isBinary))
  for (const name of ['ping', 'pong'] as const) ws.on(name, () => void isWithinRate(life))
  if (handshake.principal) welcome(life, handshake.principal)
  else limitHello(life).catch(() => undefined)
}

/** Moves a client away from a draining pod. The socket stays open for replies that began before the drain; replies that begin later do not
 *  keep it open. */
function guestOf({ moving }: SocketDeps, { onStop, signal }: SocketEnding, say: (frame: object) => void) {
  let held = 0
  const end = () => void (held === 0 && onStop())
  return {
    ask: (afterMs: number) => say({ type: 'reconnect', afterMs }),
    end,
    hold: () => {
      if (moving.isOn()) return () => undefined
      held += 1
      return () => {
        held -= 1
        if (moving.isOn() && !signal.aborted) end()
      }
    },
  }
}

/** Sends ticks and pings. A connected client answers each ping, so a client that has sent nothing since the last ping is gone. */
async function beat({ ws, raw, clock, writer, say, reading, signal }: SocketLife): Promise<void> {
  for (let heard: number | undefined; ;) {
    await clock.sleep(SOCKET_LIMITS.tickMs, signal)
    if (raw.bytesRead === heard && !reading.isPaused()) return ws.terminate()
    heard = undefined
    if (writer.isFull()) continue // no ping, so that no answer is missing at the next tick
    heard = raw.bytesRead
    say({ type: 'tick', now: new Date(clock.now()).toISOString() })
    ws.ping()
  }
}

async function limitHello(life: SocketLife): Promise<void> {
  await life.clock.sleep(SOCKET_LIMITS.helloMs, life.signal)
  if (life.open) return
  const text = life.refreshing
    ? 'The pod could not check the token in time'
    : `No hello with a token came within ${SOCKET_LIMITS.helloMs / 1000} s: connect again`
  life.close('overload', text) // a device that was asleep has done nothing wrong
}

function isWithinRate({ frameRates, id, close }: SocketLife): boolean {
  if (frameRates.take(id) === 0) return true
  close('tooMany', 'The client sends too many frames: at most 100 a second')
  return false
}

function takeMessage(life: SocketLife, data: RawData, isBinary: boolean): void {
  if (life.signal.aborted || !isWithinRate(life)) return
  const frame = isBinary ? 'binary' : parsed((data as Buffer).toString())
  if (typeof frame === 'string') return life.close('malformed', `The frame is ${frame}`)
  takeFrame(life, frame)
}

/** Returns the frame, or a text that says what is wrong. */
function parsed(text: string): FrameFields | string {
  const fault = jsonTextFault(text, BODY_JSON)
  if (fault !== undefined) return fault
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as FrameFields)
      : 'not a JSON object'
  } catch {
    return 'not JSON'
  }
}

function takeFrame(life: SocketLife, frame: FrameFields): void {
  const { open, route, writer, close } = life
  if (life.refreshing) return void life.held.push(frame)
  if (route.dialect.tokenIn) return takeForeign(life, frame, route.dialect.tokenIn(frame))
  if (frame['type'] === 'hello') return void takeHello(life, frame)
  if (!open) return close('malformed', 'The first frame must be hello')
  if (frame['type'] !== 'ping') return open.commands.take(frame)
  const n = frame['n']
  writer.now({ type: 'pong', ...(Number.isSafeInteger(n) && { n }) })
}

/** A frame that carries its own credential. The first one without one is of a caller without one. */
function takeForeign(life: SocketLife, frame: FrameFields, token: string | undefined): void {
  const isKnown = life.open && (token === undefined || token === life.token)
  if (isKnown) return life.open!.commands.take(frame)
  life.token = token
  life.held.push(frame)
  void takeHello(life, { type: 'hello', ...(token !== undefined && { token }) })
}

/** Frames that come meanwhile wait: they are for the caller that the hello names. */
async function takeHello(life: SocketLife, frame: FrameFields): Promise<void> {
  life.refreshing = true
  life.reading.pause('hello', true)
  await greet(life, frame)
  life.refreshing = false
  life.reading.pause('hello', false)
  if (!life.signal.aborted) life.held.splice(0).forEach((held) => takeFrame(life, held))
}
