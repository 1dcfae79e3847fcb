// The life of one socket: the client authenticates, sends commands, and gets what it follows. Guarantees:
//   S8   its caller is known within 5 s, or it is closed. A new token of the same user keeps it open
//   S9   it is closed when its caller is not let in any more, and silent while nobody knows
//   S16  a frame that is too large, not JSON or not allowed closes it, with a code that says why
//   S17  a client that takes no byte for `stallMs` is disconnected. It resumes after the last frame that it has
// What has to be known about its caller is asked for here; what its commands do is the gateway's.
import type { Socket } from 'node:net'
import type { RawData, WebSocket } from 'ws'
import { z } from 'zod'
import { CLOSE_CODES, ERROR_CODES, jsonTextFault, SOCKET_LIMITS } from '@fleetline/protocol'
import { Retry } from '../errors.ts'
import type { Credentials, PortCallers } from '../identity/callers.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { RefusedRequest } from '../identity/refused-requests.ts'
import type { Clock } from '../lib/clock.ts'
import type { Rates } from '../lib/rates.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { admissionOf, untilRefused } from './admission.ts'
import { refusedRequest } from './audited-refusals.ts'
import { BODY_JSON } from './json-body.ts'
import { refusalOf, statusOf } from './refusal.ts'
import type { ClientMoves } from './moving.ts'
import { parserOf } from './route.ts'
import { createSocketCommands, errorFrame, type FrameFields, type SocketCommands } from './socket-commands.ts'
import type { Push, SocketPeer, SocketRoute, SocketSide } from './socket-route.ts'
import { createSocketWriter, orAborted } from './socket-writer.ts'

export type SocketDeps = {
  readonly name: string
  readonly callers: PortCallers
  readonly rateLimits: Pick<RateLimits, 'countRequest'>
  /** Counts the frames of each socket, by its number. */
  readonly frameRates: Rates
  readonly onRefused: (refused: RefusedRequest) => void
  readonly stallMs: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly drawId: () => string
  readonly stopping: AbortSignal
  readonly moving: ClientMoves
  /** How many sockets each user has. */
  readonly users: Map<string, number>
}
export type Handshake = Pick<Credentials, 'address' | 'isLocal'> & {
  readonly route: SocketRoute
  readonly raw: Socket
  /** A name for its frames' rate. */
  readonly id: string
  /** If the handshake has authenticated the caller. */
  readonly principal: Principal | undefined
  /** Why a credential of the handshake was refused: the socket is closed at once. */
  readonly refused?: unknown
}

/** Emitted when either side has begun to close the socket, with the code if the library does it because a frame is too large. */
export const CLOSING = 'closing'

type Reason = keyof typeof CLOSE_CODES

const LINGER_MS = 2_000
const SLOW_LINGER_MS = 10_000 // so that a reader that comes back finds out why
const REASON_BYTES = 123 // of a close frame
const TOKEN_LENGTH = 16 * 1024

const helloSchema = z.object({
  token: z
    .string('must be text')
    .min(1, 'is empty: leave token out if the handshake carried it')
    .max(TOKEN_LENGTH)
    .regex(/^\S+$/, 'must be a token or a key, without spaces')
    .optional(),
})

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
  const life: Life = {
    ...deps,
    ...handshake,
    ...ending,
    ws,
    reading,
    writer,
    open: undefined,
    refreshing: false,
    held: [],
  }
  const leave = deps.moving.enter('sockets', {
    ask: (afterMs) => writer.now({ type: 'reconnect', afterMs }),
    end: ending.onStop,
  })
  ws.once('close', leave)
  if (signal.aborted) return // it came too late: the pod drains
  beat(life).catch(() => undefined) // aborted: the socket is over
  if (handshake.refused !== undefined) return closeFor(life, handshake.refused)
  ws.on('message', (data, isBinary) => takeMessage(life, data, isBinary))
  for (const name of ['ping', 'pong'] as const) ws.on(name, () => void isWithinRate(life))
  if (handshake.principal) welcome(life, handshake.principal)
  else limitHello(life).catch(() => undefined)
}

type Life = SocketDeps &
  Handshake &
  ReturnType<typeof endingOf> & {
    readonly ws: WebSocket
    readonly reading: ReturnType<typeof readingOf>
    readonly writer: ReturnType<typeof createSocketWriter>
    /** Set once the caller is known. */
    open: Welcomed | undefined
    /** A hello is being checked. Frames that come meanwhile wait in `held`. */
    refreshing: boolean
    held: FrameFields[]
  }
type Welcomed = {
  principal: Principal
  readonly side: SocketSide
  readonly commands: SocketCommands
  /** Ends the reminder that the token expires. */
  reminding: AbortController
  /** Counts as known from now on. */
  readonly admit: () => void
}

/** How the socket ends, from either side. */
function endingOf({ clock, metrics, stopping }: SocketDeps, ws: WebSocket, { raw }: Handshake) {
  const [over, gone] = [new AbortController(), new AbortController()]
  let [closedBy, mark]: [number | undefined, string | undefined] = [undefined, undefined]
  /** Nothing more is done or sent. A client that does not close its side is disconnected. */
  const end = (lingerMs: number) => {
    if (over.signal.aborted) return
    over.abort()
    ws.resume() // to read the client's close frame
    clock.sleep(lingerMs, gone.signal).then(
      () => ws.terminate(),
      () => undefined, // it is gone
    )
  }
  const close = (reason: Reason, text: string) => {
    if (over.signal.aborted) return
    closedBy = CLOSE_CODES[reason]
    end(reason === 'slow' ? SLOW_LINGER_MS : LINGER_MS)
    ws.close(closedBy, shortened(text))
  }
  const cutSlow = () =>
    close('slow', `The client reads too slowly. ${mark === undefined ? '' : `Last sent: ${mark}`}`)
  const onStop = () =>
    over.signal.aborted ? ws.terminate() : close('restart', 'The pod stops, or drains: connect again')
  stopping.addEventListener('abort', onStop, { once: true })
  ws.on('error', () => undefined) // 'close' follows
  ws.on(CLOSING, (code: number | undefined) => {
    closedBy ??= code
    end(LINGER_MS)
  })
  raw.once('end', () => end(LINGER_MS)) // the client sends nothing more, and the library nothing either
  ws.on('close', () => {
    over.abort()
    gone.abort()
    stopping.removeEventListener('abort', onStop)
    metrics.count('socketsClosed', { code: closedBy === undefined ? 'client' : String(closedBy) })
  })
  if (stopping.aborted) onStop()
  return { close, cutSlow, onStop, signal: over.signal, mark: (at: string) => void (mark = at) }
}

/** A socket is read unless there is a reason not to. */
function readingOf(ws: WebSocket, over: AbortSignal) {
  const reasons = new Set<string>()
  return {
    isPaused: () => reasons.size > 0,
    pause: (reason: 'hello' | 'full' | 'busy', isOn: boolean) => {
      if (isOn) reasons.add(reason)
      else reasons.delete(reason)
      if (over.aborted) return // the client's close frame has to be read
      if (reasons.size > 0) ws.pause()
      else ws.resume()
    },
  }
}

/** Sends ticks and pings. A client that is connected answers each ping; one of which nothing was heard since the last ping is gone. */
async function beat({ ws, raw, clock, writer, reading, signal }: Life): Promise<void> {
  for (let heard: number | undefined; ;) {
    await clock.sleep(SOCKET_LIMITS.tickMs, signal)
    if (raw.bytesRead === heard && !reading.isPaused()) return ws.terminate()
    heard = undefined
    if (writer.isFull()) continue // no ping, so that no answer is missing at the next tick
    heard = raw.bytesRead
    writer.now({ type: 'tick', now: new Date(clock.now()).toISOString() })
    ws.ping()
  }
}

async function limitHello(life: Life): Promise<void> {
  await life.clock.sleep(SOCKET_LIMITS.helloMs, life.signal)
  if (life.open) return
  if (life.refreshing) return life.close('overload', 'The pod could not check the token in time')
  life.close('unauthenticated', `No hello with a token came within ${SOCKET_LIMITS.helloMs / 1000} s`)
}

function isWithinRate({ frameRates, id, close }: Life): boolean {
  if (frameRates.take(id) === 0) return true
  close('tooMany', 'The client sends too many frames: at most 100 a second')
  return false
}

function takeMessage(life: Life, data: RawData, isBinary: boolean): void {
  if (life.signal.aborted || !isWithinRate(life)) return
  const frame = isBinary ? 'binary' : parsed((data as Buffer).toString())
  if (typeof frame === 'string') return life.close('malformed', `The frame is ${frame}`)
  takeFrame(life, frame)
}

/** Returns what is wrong with the text instead, if it is no frame. */
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

function takeFrame(life: Life, frame: FrameFields): void {
  const { open, writer, close } = life
  if (life.refreshing) return void life.held.push(frame)
  if (frame['type'] === 'hello') return void greet(life, frame)
  if (!open) return close('malformed', 'The first frame must be hello')
  if (frame['type'] !== 'ping') return open.commands.take(frame)
  const n = frame['n']
  writer.now({ type: 'pong', ...(Number.isSafeInteger(n) && { n }) })
}

/** Checks the token of a hello. Frames that come meanwhile wait: they are for the caller that it names. */
async function greet(life: Life, frame: FrameFields): Promise<void> {
  life.refreshing = true
  life.reading.pause('hello', true)
  try {
    const parsed = parserOf(helloSchema, 'frame')(frame)
    if (parsed.error) throw parsed.error
    const principal = await callerOf(life, parsed.value.token)
    if (!life.signal.aborted)
      await (life.open ? refresh(life, life.open, principal) : welcome(life, principal))
  } catch (error) {
    refuseHello(life, error)
  }
  life.refreshing = false
  life.reading.pause('hello', false)
  if (!life.signal.aborted) life.held.splice(0).forEach((held) => takeFrame(life, held))
}

async function callerOf(life: Life, token: string | undefined): Promise<Principal> {
  const { open, callers, rateLimits, address, isLocal } = life
  if (open && token === undefined) {
    rateLimits.countRequest(open.principal)
    return open.principal
  }
  const authorization = token === undefined ? undefined : `Bearer ${token}`
  const principal = await callers.callerOf({ authorization, address, isLocal })
  rateLimits.countRequest(principal)
  return principal
}

/** A first hello that is refused ends the socket. A later one does not: its old token may be good for a while. */
function refuseHello(life: Life, error: unknown): void {
  const { open, writer, drawId, signal } = life
  if (signal.aborted) return
  if (!open) return closeFor(life, error)
  const requestId = drawId()
  report(life, 'hello', error, requestId)
  writer.now(errorFrame(refusalOf(error), requestId))
}

const CLOSES: Readonly<Record<string, Reason>> = {
  unauthenticated: 'unauthenticated',
  rate_limited: 'tooMany',
  invalid: 'malformed',
}

function closeFor(life: Life, error: unknown): void {
  report(life, 'hello', error, life.drawId())
  const { code, text } = refusalOf(error)
  life.close(CLOSES[code] ?? 'overload', text)
}

/** Logs an error that is ours, and notes a refusal for the audit log. */
function report(life: Life, command: string, error: unknown, requestId: string): void {
  const { route, open, address, onRefused, log, name } = life
  const asked = { caller: open?.principal, address, method: 'GET', route: `${route.path} ${command}` }
  const refused = refusedRequest(error, asked)
  if (refused) onRefused(refused)
  const refusal = refusalOf(error)
  if (statusOf(refusal) >= 500)
    log.error('command failed', { service: name, request_id: requestId, code: refusal.code, error })
}

/** The caller is known for the first time. */
function welcome(life: Life, principal: Principal): void {
  const { users, ws, close, signal } = life
  const user = userOf(principal)
  const count = users.get(user ?? '') ?? 0
  if (user !== undefined && count >= SOCKET_LIMITS.perUser)
    return close('tooMany', `This user has ${count} sockets on this pod. Close one first`)
  if (user !== undefined) {
    users.set(user, count + 1)
    ws.once('close', () => {
      const left = users.get(user)! - 1
      if (left === 0) users.delete(user)
      else users.set(user, left)
    })
  }
  life.open = openFor(life, principal)
  if (!signal.aborted) greeted(life, life.open)
}

/** A new token of the same user. */
async function refresh(life: Life, open: Welcomed, principal: Principal): Promise<void> {
  const { close } = life
  if (nameOf(principal) !== nameOf(open.principal))
    return close('otherUser', 'The new token is of another user: open a socket of its own')
  open.principal = principal
  open.admit()
  greeted(life, open)
  await open.side.recheck().catch(() => undefined) // nobody knows now; the next check comes within 2 s
}

function greeted(life: Life, open: Welcomed): void {
  const { user } = open.principal
  open.reminding.abort()
  open.reminding = new AbortController()
  const { clock, writer } = life
  const { tickMs, frameBytes, joined } = SOCKET_LIMITS
  writer.now({
    type: 'welcome',
    user: user?.id ?? null,
    now: new Date(clock.now()).toISOString(),
    tokenExpiresAt: user ? new Date(user.endMs).toISOString() : null,
    tickMs,
    limits: { frameBytes, joined },
  })
  if (user) remind(life, user.endMs, open.reminding.signal).catch(() => undefined) // renewed, or over
}

async function remind({ clock, writer, close, signal }: Life, endMs: number, renewed: AbortSignal) {
  const either = AbortSignal.any([signal, renewed])
  await clock.sleep(Math.max(0, endMs - SOCKET_LIMITS.expiringMs - clock.now()), either)
  writer.now({ type: 'expiring', at: new Date(endMs).toISOString() })
  await clock.sleep(Math.max(0, endMs - clock.now()), either)
  close('unauthenticated', 'The token has expired: connect with a new one')
}

function openFor(life: Life, principal: Principal): Welcomed {
  const { route, clock, writer, signal, callers, reading, metrics, rateLimits, close, cutSlow, drawId } = life
  const admission = admissionOf(clock)
  const push: Push = async (frame, { signal: own, mark }) => {
    if (writer.isFull()) await writer.room(own)
    if (!admission.isKnown()) await orAborted(admission.known(), own)
    if (own.aborted) return
    if (mark !== undefined) life.mark(mark)
    await writer.take(JSON.stringify(route.frames.parse(frame)), own)
  }
  const peer: SocketPeer = { caller: () => open.principal, push, room: writer.room, cut: cutSlow, signal }
  const side = route.open(peer)
  const commands = createSocketCommands({
    route,
    side,
    caller: () => open.principal,
    isAdmitted: admission.isKnown,
    countRequest: rateLimits.countRequest,
    answer: (frame) => signal.aborted || writer.now(frame),
    onBusy: (isBusy) => reading.pause('busy', isBusy),
    onAnswered: (command, outcome) => metrics.count('socketCommands', { command, outcome }),
    onError: (command, error, requestId) => report(life, command, error, requestId),
    drawId,
    signal,
  })
  const admit = () => admission.know(clock.monotonicMs())
  const open: Welcomed = { principal, side, commands, admit, reminding: new AbortController() }
  const recheck = async () => {
    const asked = open.principal
    await callers.recheck(asked).catch((error: unknown) => {
      if (asked === open.principal) throw error // otherwise a new token has come meanwhile
    })
    // Whatever fails here, the caller itself was not refused.
    await side.recheck().catch((cause: unknown) => {
      throw new Retry('unavailable', ERROR_CODES.unavailable.meaning, { cause })
    })
  }
  void untilRefused({ recheck, clock }, admission, signal).then((refused) => {
    if (refused) close('unauthenticated', refused.message)
    admission.know(Number.POSITIVE_INFINITY) // what still waits finds out that the socket is over
  })
  return open
}

/** Who it is, whatever the token allows. */
function nameOf({ tenant, key, user }: Principal): string {
  return JSON.stringify([tenant, user ? [user.id] : key])
}

function userOf(principal: Principal): string | undefined {
  return principal.user && nameOf(principal)
}

function shortened(text: string): string {
  let short = text
  while (Buffer.byteLength(short) > REASON_BYTES) short = short.slice(0, -1)
  return short
}
