// Authenticates the client of a socket: by the handshake or its first hello, and again by each later hello. From then on the pod checks
// the caller every 2 s, and closes the socket when the caller's token ends.
import { z } from 'zod'
import { ERROR_CODES, SOCKET_LIMITS } from '@fleetline/protocol'
import { Retry } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import { admissionOf, untilRefused } from './admission.ts'
import { refusalOf } from './refusal.ts'
import { parserOf } from './route.ts'
import { createSocketCommands } from './socket-commands.ts'
import type { FrameFields, Push, SocketPeer } from './socket-route.ts'
import { closeFor, report, type SocketLife, type Welcomed } from './socket-life.ts'
import { orAborted } from './socket-writer.ts'

const HOW = 'Send an API key or a token: {"type":"hello","token":"…"}'
const TOKEN_LENGTH = 16 * 1024

const helloSchema = z.object({
  token: z
    .string('must be text')
    .min(1, 'is empty: leave token out if the handshake carried it')
    .max(TOKEN_LENGTH)
    .regex(/^\S+$/, 'must be a token or a key, without spaces')
    .optional(),
})

/** Checks the token of a hello. */
export async function greet(life: SocketLife, frame: FrameFields): Promise<void> {
  try {
    const parsed = parserOf(helloSchema, 'frame')(frame)
    if (parsed.error) throw parsed.error
    const principal = await callerOf(life, parsed.value.token)
    if (!life.signal.aborted)
      await (life.open ? refresh(life, life.open, principal) : welcome(life, principal))
  } catch (error) {
    refuseHello(life, error)
  }
}

async function callerOf(life: SocketLife, token: string | undefined): Promise<Principal> {
  const { open, callers, rateLimits, address, isLocal } = life
  if (open && token === undefined) {
    rateLimits.countRequest(open.principal)
    return open.principal
  }
  const authorization = token === undefined ? undefined : `Bearer ${token}`
  const principal = await callers.callerOf({ authorization, address, isLocal, how: HOW })
  rateLimits.countRequest(principal)
  return principal
}

/** A first hello that is refused ends the socket. A later one does not: its old token may be good for a while. */
function refuseHello(life: SocketLife, error: unknown): void {
  const { open, route, writer, drawId, signal } = life
  if (signal.aborted) return
  if (!open || route.dialect.tokenIn) return closeFor(life, error)
  const requestId = drawId()
  report(life, 'hello', error, requestId)
  writer.now(route.dialect.errorOf(refusalOf(error), requestId))
}

/** The caller is known for the first time. */
export function welcome(life: SocketLife, principal: Principal): void {
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
async function refresh(life: SocketLife, open: Welcomed, principal: Principal): Promise<void> {
  const { close } = life
  if (nameOf(principal) !== nameOf(open.principal))
    return close('otherUser', 'The new token is of another user: open a socket of its own')
  open.principal = principal
  open.admit()
  greeted(life, open)
  await open.side.recheck().catch(() => undefined) // it could not be checked: the next check comes within 2 s
}

function greeted(life: SocketLife, open: Welcomed): void {
  const { user } = open.principal
  open.reminding.abort()
  open.reminding = new AbortController()
  const { clock, say } = life
  const { tickMs, frameBytes, joined } = SOCKET_LIMITS
  say({
    type: 'welcome',
    user: user?.id ?? null,
    now: new Date(clock.now()).toISOString(),
    tokenExpiresAt: user ? new Date(user.endMs).toISOString() : null,
    tickMs,
    limits: { frameBytes, joined },
  })
  if (user) remind(life, user.endMs, open.reminding.signal).catch(() => undefined) // renewed, or over
}

async function remind({ clock, say, close, signal }: SocketLife, endMs: number, renewed: AbortSignal) {
  const either = AbortSignal.any([signal, renewed])
  await clock.sleep(Math.max(0, endMs - SOCKET_LIMITS.expiringMs - clock.now()), either)
  say({ type: 'expiring', at: new Date(endMs).toISOString() })
  await clock.sleep(Math.max(0, endMs - clock.now()), either)
  close('unauthenticated', 'The token has expired: connect with a new one')
}

function openFor(life: SocketLife, principal: Principal): Welcomed {
  const { route, clock, writer, signal, callers, reading, metrics, rateLimits, close, cutSlow, drawId } = life
  const admission = admissionOf(clock)
  const push: Push = async (frame, { signal: own, mark }) => {
    if (writer.isFull()) await writer.room(own)
    if (!admission.isKnown()) await orAborted(admission.known(), own)
    if (own.aborted) return
    if (mark !== undefined) life.mark(mark)
    await writer.take(JSON.stringify(route.frames.parse(frame)), own)
  }
  const peer: SocketPeer = {
    caller: () => open.principal,
    push,
    room: writer.room,
    cut: cutSlow,
    signal,
    hold: life.hold,
    restart: () => void (signal.aborted || life.onStop()),
  }
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
    // An error here does not refuse the caller itself: its access is only unknown.
    await side.recheck().catch((cause: unknown) => {
      throw new Retry('unavailable', ERROR_CODES.unavailable.meaning, { cause })
    })
  }
  void untilRefused({ recheck, clock }, admission, signal).then((refused) => {
    if (refused) close('unauthenticated', refused.message)
    admission.know(Number.POSITIVE_INFINITY) // wakes what waits for the check, so that it sees that the socket is over
  })
  return open
}

/** The identity of a caller, without what its token allows. */
function nameOf({ tenant, key, user }: Principal): string {
  return JSON.stringify([tenant, user ? [user.id] : key])
}

function userOf(principal: Principal): string | undefined {
  return principal.user && nameOf(principal)
}
