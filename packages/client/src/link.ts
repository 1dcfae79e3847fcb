// The socket of a client: one connection that carries all its sessions and an inbox. It is opened when something is followed, and opened
// again when it is lost, after a random time from a range that doubles. What is followed then goes on after its position. If a pod asks
// the client to move, the next connection is open before the old one is closed. A new token goes over the open connection.
// Some networks let no socket through: if two attempts fail before one has ever opened, `isUsable` is false, and the client uses event
// streams. The link tries again every minute.
import { CLOSE_CODES, type Frame, type InboxFrame, type ServerFrame } from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { FleetlineError, isRefusal, retryAfterMs, unavailable } from './failure.ts'
import { napOf } from './nap.ts'
import { openSocket, type Answer, type Command, type Ended, type Socket } from './socket.ts'
import type { Tokens } from './tokens.ts'

export type Followed = (Frame & { readonly cursor: string }) | InboxFrame
export type Follower = {
  /** The command that begins it, or begins it again. */
  readonly command: () => Command
  /** Called with the answer to the command. */
  readonly begin: (answer: Answer) => void
  /** Returns false if something is missing. Then it begins again. */
  readonly take: (frame: Followed) => boolean
  /** Called when the connection was lost. */
  readonly lost: () => void
}
/** Why a follower is over. `other`: sockets cannot be used here. */
export type FollowEnd = FleetlineError | 'other' | 'aborted'

export type Link = {
  readonly isUsable: () => boolean
  /** Aborted when sockets can be used again. */
  readonly usable: () => AbortSignal
  readonly follow: (follower: Follower, signal: AbortSignal) => Promise<FollowEnd>
  /** Undefined if no connection is open now. The answer of a request that fails is unknown, unless it is refused. */
  readonly request: <T>(command: Command, signal: AbortSignal) => Promise<T> | undefined
  readonly wake: () => void
  readonly close: () => void
}
type Deps = {
  /** Undefined: sockets are never used. */
  readonly WebSocket: typeof WebSocket | undefined
  readonly url: () => string
  readonly tokens: Tokens
  readonly clock: Clock
  readonly random: Random
}
type Member = {
  readonly follower: Follower
  readonly isInbox: boolean
  readonly end: (why: FollowEnd) => void
  /** The session that is followed; null for the inbox; undefined before the answer. */
  name: string | null | undefined
  failures: number
}

const ANSWER_MS = 10_000
const STEADY_MS = 5_000
const RETRY_MS = 60_000
const IDLE_MS = 30_000
const MOST_UNOPENED = 2
const ONE_INBOX = new FleetlineError(
  { code: 'too_many', text: 'A socket carries one inbox.' },
  { isRefused: true },
)
const PASSING: ReadonlySet<string> = new Set(['unavailable', 'internal', 'rate_limited'])

export function createLink({ WebSocket, url, tokens, clock, random }: Deps): Link {
  const [members, closing, nap] = [new Set<Member>(), new AbortController(), napOf(clock)]
  let [isUsable, hasOpened, isRunning] = [WebSocket !== undefined, false, false]
  let usable = new AbortController()
  let current: Socket | undefined
  let held: string | undefined // the token of the newest connection
  let moving: Promise<void> | undefined

  const finish = (member: Member, why: FollowEnd) => {
    if (members.delete(member)) member.end(why)
  }
  const finishAll = (why: FollowEnd) => members.forEach((member) => finish(member, why))

  const begin = (member: Member, socket: Socket) => {
    member.name = undefined
    const { follower } = member
    const isCurrent = () => members.has(member) && socket === current
    socket.ask(follower.command(), {
      onAnswer: (answer) => {
        if (!isCurrent()) return
        member.name = answer.type === 'joined' ? answer.session : null
        member.failures = 0
        follower.begin(answer)
      },
      onFailure: (error) => {
        if (!isCurrent()) return
        if (isRefusal(error)) finish(member, error)
        else void beginLater(member, socket, error)
      },
    })
  }
  const beginLater = async (member: Member, socket: Socket, error: FleetlineError) => {
    member.name = undefined
    member.follower.lost()
    const pauseMs = Math.max(backoffMs((member.failures += 1), random), retryAfterMs(error))
    await nap.sleep(pauseMs, socket.signal)
    if (members.has(member) && socket === current && !socket.signal.aborted) begin(member, socket)
  }
  const take = (frame: ServerFrame) => {
    if (frame.type === 'reconnect') return void (moving ??= move(frame.afterMs))
    const name = frame.type === 'inbox' ? null : 'session' in frame ? frame.session : undefined
    if (name === undefined) return // of a later release, or nothing to do
    for (const member of members) {
      if (member.name !== name) continue
      if (frame.type === 'left')
        leave(member, new FleetlineError(frame, { isRefused: !PASSING.has(frame.code) }))
      else if (!member.follower.take(frame as Followed)) begin(member, current!)
    }
  }
  const leave = (member: Member, error: FleetlineError) => {
    if (error.isRefused) finish(member, error)
    else void beginLater(member, current!, error)
  }

  /** Resolves to the connection when it is open, or to how it has ended before. */
  const open = async (): Promise<Socket | Ended> => {
    held = await tokens.get()
    const onFrame = (frame: ServerFrame) => {
      if (socket === current) take(frame)
    }
    const socket = openSocket({ url: url(), WebSocket: WebSocket!, clock, token: held, onFrame })
    closing.signal.addEventListener('abort', socket.cut, { once: true, signal: socket.signal })
    const ended = await Promise.race([socket.welcomed, socket.over])
    if (ended) return ended
    hasOpened = true
    renew(socket, held).catch(() => undefined) // it is over, or gets no new token: then it ends with the old one
    return socket
  }
  /** Sends each new token. */
  const renew = async (socket: Socket, first: string | undefined) => {
    for (let token = first; !socket.signal.aborted;) {
      await tokens.renewed(token, socket.signal)
      token = held = await tokens.get()
      socket.hello(token)
    }
  }
  const use = (socket: Socket) => {
    const before = current
    current = socket
    members.forEach((member) => begin(member, socket))
    before?.retire()
  }
  const move = async (afterMs: number) => {
    await clock.sleep(afterMs, closing.signal).catch(() => undefined)
    const next = await open().catch(() => undefined)
    if (next && 'ask' in next) {
      if (closing.signal.aborted) next.cut()
      else use(next)
    }
    moving = undefined
  }
  /** Resolves when no connection is open any more. */
  const untilLost = async (): Promise<Ended> => {
    for (;;) {
      const socket = current!
      const ended = await socket.over
      await moving
      if (socket === current) {
        current = undefined
        return ended
      }
    }
  }
  const lose = () =>
    members.forEach((member) => {
      member.name = undefined
      member.follower.lost()
    })
  const setUsable = (is: boolean) => {
    if (is === isUsable) return
    isUsable = is
    if (is) usable.abort()
    else {
      usable = new AbortController()
      finishAll('other')
    }
  }
  /** One connection, from its opening to its end. Resolves to how it has ended; undefined if it had no token to open with. */
  const connect = async (): Promise<Ended | undefined> => {
    const opened = await open()
    if (!('ask' in opened)) return opened
    setUsable(true)
    use(opened)
    const ended = await untilLost()
    lose()
    return ended
  }
  const run = async () => {
    let [failures, unopened, renewals] = [0, 0, 0]
    while (!closing.signal.aborted && (members.size > 0 || !isUsable)) {
      const sinceMs = clock.now()
      const ended = await connect().catch((error: unknown) => void (isRefusal(error) && finishAll(error)))
      const isSteady = ended?.wasOpen === true && clock.now() - sinceMs >= STEADY_MS
      if (isSteady) failures = renewals = 0
      const refusal = ended && refusalOf(ended)
      if (
        refusal?.code === 'unauthenticated' &&
        held !== undefined &&
        tokens.reject(held) &&
        renewals === 0
      ) {
        renewals += 1
        continue // with another token
      }
      if (refusal) finishAll(refusal)
      if (members.size === 0 && isUsable) return
      failures += 1
      unopened = ended?.wasOpen === false ? unopened + 1 : unopened
      if (!hasOpened && unopened >= MOST_UNOPENED) setUsable(false)
      await nap.sleep(isUsable ? backoffMs(failures, random) : RETRY_MS, closing.signal)
    }
  }
  /** A page may follow something else in a moment. */
  const retireIdle = async () => {
    const socket = current
    if (!socket || members.size > 0) return
    await clock.sleep(IDLE_MS, socket.signal).catch(() => undefined) // it is over
    if (members.size === 0) socket.retire()
  }
  const start = () => {
    if (isRunning) return
    isRunning = true
    void run().finally(() => {
      isRunning = false
      if (members.size > 0) start() // it came when the run had just ended
    })
  }
  return {
    isUsable: () => isUsable,
    usable: () => usable.signal,
    follow: (follower, signal) =>
      new Promise((resolve) => {
        if (signal.aborted) return resolve('aborted')
        const isInbox = follower.command().type === 'inbox'
        if (isInbox && Array.from(members).some((other) => other.isInbox)) return resolve(ONE_INBOX)
        const end = (why: FollowEnd) => {
          signal.removeEventListener('abort', onAbort)
          resolve(why)
        }
        const member: Member = { follower, isInbox, end, name: undefined, failures: 0 }
        const onAbort = () => {
          finish(member, 'aborted')
          leaveOn(current, member, members)
          void retireIdle()
        }
        signal.addEventListener('abort', onAbort, { once: true })
        members.add(member)
        if (current) begin(member, current)
        else start()
      }),
    request: (command, signal) => current && answered(clock, current, { command, signal }),
    wake: () => {
      nap.wake()
      if (current?.isDoubtful() === true) current.cut()
    },
    close: () => closing.abort(),
  }
}

/** Why the client must not connect again by itself. */
function refusalOf({ code, reason }: Ended): FleetlineError | undefined {
  const named = REFUSALS.find(([closedBy]) => closedBy === code)
  return named && new FleetlineError({ code: named[1], text: reason }, { isRefused: true })
}
const REFUSALS: readonly (readonly [closedBy: number, code: string])[] = [
  [CLOSE_CODES.unauthenticated, 'unauthenticated'],
  [CLOSE_CODES.otherUser, 'forbidden'],
  [CLOSE_CODES.malformed, 'invalid'],
]

/** Ends a feed on the pod, unless another member follows the same. */
function leaveOn(socket: Socket | undefined, { name }: Member, members: ReadonlySet<Member>): void {
  if (!socket || name === undefined || Array.from(members).some((other) => other.name === name)) return
  const command: Command = name === null ? { type: 'inbox', on: false } : { type: 'leave', session: name }
  socket.ask(command, { onAnswer: () => undefined, onFailure: () => undefined })
}

type Request = { readonly command: Command; readonly signal: AbortSignal }

/** Resolves to the answer. A connection that does not answer in time is asked whether it is alive. */
function answered<T>(clock: Clock, socket: Socket, { command, signal }: Request): Promise<T> {
  return new Promise((resolve, reject) => {
    const done = new AbortController()
    const fail = (error: Error) => {
      done.abort()
      reject(error)
    }
    const onAnswer = ({ type: _type, cid: _cid, ...answer }: Answer) => {
      done.abort()
      resolve(answer as T)
    }
    socket.ask(command, { onAnswer, onFailure: fail })
    clock.sleep(ANSWER_MS, AbortSignal.any([signal, done.signal])).then(
      () => {
        socket.probe()
        fail(unavailable('There was no answer in time.'))
      },
      () => signal.aborted && fail(signal.reason as Error),
    )
  })
}
