// The socket of a client: one connection that carries all its sessions and an inbox. It is opened when something is followed, and opened
// again when it is lost, after a random time from a range that doubles. What is followed then goes on after its position. If a pod asks
// the client to move, the next connection is open before the old one is closed. A new token goes over the open connection.
// Some networks let no socket through: if two attempts fail before one has ever opened, the client uses event streams, and the link tries
// again every minute.
import {
  REFUSED_CODES,
  type ErrorCode,
  type Frame,
  type InboxFrame,
  type ServerFrame,
} from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { errorOf, FleetlineError, isRefusal, refused, retryAfterMs, STRANGER } from './failure.ts'
import { napOf } from './nap.ts'
import { openSocket, type Answer, type Command, type Ended, type Socket } from './socket.ts'
import type { Tokens } from './tokens.ts'
import { within } from './within.ts'

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
  /** A signal that is aborted as soon as sockets can be used. */
  readonly usable: () => AbortSignal
  readonly follow: (follower: Follower, signal: AbortSignal) => Promise<FollowEnd>
  /** Undefined if the socket cannot carry the command now. If it rejects without a refusal by the pod, the outcome is unknown. */
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
  readonly end: (why: FollowEnd) => void
  /** The session that is followed; null for the inbox; undefined before the answer. */
  name: string | null | undefined
  /** When the answer came; NaN before. */
  sinceMs: number
  failures: number
}

const STEADY_MS = 5_000
const RETRY_MS = 60_000
const IDLE_MS = 30_000
const MOST_UNOPENED = 2
const LOST = 1006 // the code of a connection that nobody has closed
const PASSING: ReadonlySet<string> = new Set<ErrorCode>(['unavailable', 'internal', 'rate_limited'])

export function createLink({ WebSocket, url, tokens, clock, random }: Deps): Link {
  const [members, closing, nap] = [new Set<Member>(), new AbortController(), napOf(clock)]
  let [usable, hasOpened, isRunning] = [new AbortController(), false, false]
  let current: Socket | undefined
  let held: string | undefined // the token of the newest connection
  let moving: Promise<void> | undefined
  if (WebSocket) usable.abort()

  const named = (name: string | null | undefined) =>
    name === undefined ? undefined : Array.from(members).find((member) => member.name === name)
  const finish = (member: Member, why: FollowEnd): boolean => {
    const isOver = members.delete(member)
    if (isOver) member.end(why)
    return isOver
  }
  const finishAll = (why: FollowEnd) => members.forEach((member) => finish(member, why))

  const begin = (member: Member) => {
    const socket = current
    Object.assign(member, { name: undefined, sinceMs: NaN }) // frames of an earlier feed are not taken any more
    if (!socket || !members.has(member)) return
    const isOurs = () => members.has(member) && socket === current && !socket.signal.aborted
    socket.ask(member.follower.command(), {
      onAnswer: (answer) => {
        const name = answer.type === 'joined' ? answer.session : null
        if (!members.has(member)) member.name = name // it has left meanwhile
        if (!isOurs()) return
        const other = named(name)
        if (other) {
          // a socket carries a session once, and one inbox: the first of both goes on
          finish(member, refused('too_many', ''))
          return begin(other)
        }
        Object.assign(member, { name, sinceMs: clock.now() })
        member.follower.begin(answer)
      },
      onFailure: (error) => void (isOurs() && fail(member, error)),
    })
  }
  const lose = (member: Member) => {
    member.name = undefined
    member.follower.lost()
  }
  /** Begins it again later, unless it is refused. */
  const fail = async (member: Member, error?: FleetlineError) => {
    const socket = current
    if (isRefusal(error)) finish(member, error)
    if (!socket || !members.has(member)) return
    lose(member)
    member.failures = clock.now() - member.sinceMs >= STEADY_MS ? 0 : member.failures + 1
    await nap.sleep(Math.max(backoffMs(member.failures, random), retryAfterMs(error)), socket.signal)
    if (socket === current) begin(member)
  }
  const take = (frame: ServerFrame) => {
    const member = named(frame.type === 'inbox' ? null : 'session' in frame ? frame.session : undefined)
    if (!member) return // of a later release, or nothing to do
    if (frame.type === 'left') void fail(member, errorOf({ ...frame, retryable: PASSING.has(frame.code) }))
    else if (!member.follower.take(frame as Followed)) void fail(member) // something is missing
  }

  /** Resolves to the socket when the pod has accepted it, or to how it has ended before that. */
  const open = async (): Promise<Socket | Ended> => {
    const token = (held = await tokens.get())
    closing.signal.throwIfAborted()
    const onFrame = (frame: ServerFrame) => {
      if (frame.type === 'reconnect') moving ??= move(socket, frame.afterMs) // may come before the welcome
      else if (socket === current) take(frame)
    }
    const socket = openSocket({ url: url(), WebSocket: WebSocket!, clock, token, onFrame })
    closing.signal.addEventListener('abort', socket.cut, { once: true, signal: socket.signal })
    const ended = await Promise.race([socket.welcomed, socket.over])
    if (ended) return ended
    renew(socket, token).catch(() => undefined) // it is over, or gets no new token: then it ends with the old one
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
    members.forEach(begin)
    before?.retire()
    void retireIdle()
  }
  const move = async (from: Socket, afterMs: number) => {
    try {
      await clock.sleep(afterMs, from.signal)
      const next = from === current && (await open())
      if (next && 'ask' in next) use(next)
    } catch {
      // the connection is over, or there is no token: the pod closes it, and another one is opened then
    }
    moving = undefined
  }
  /** Uses one connection, and those to which a pod makes it move. Resolves to how the last one has ended. */
  const connect = async (): Promise<Ended> => {
    const opened = await open()
    if (!('ask' in opened)) return opened
    hasOpened = true
    usable.abort()
    use(opened)
    for (;;) {
      const socket = current!
      const ended = await socket.over
      if (socket !== current) continue // it has moved
      current = undefined
      members.forEach(lose)
      await moving
      if (!current) return ended
    }
  }
  const isWanted = () => !closing.signal.aborted && (members.size > 0 || !usable.signal.aborted)
  const run = async () => {
    let [failures, unopened, isRenewed] = [0, 0, false]
    while (isWanted()) {
      const { code, reason, livedMs } = await connect().catch((error: unknown): Ended => {
        if (isRefusal(error)) finishAll(error)
        const hasNoToken = error instanceof FleetlineError // otherwise the browser allows no socket
        return { code: hasNoToken ? 0 : LOST, reason: '' }
      })
      failures = livedMs !== undefined && livedMs >= STEADY_MS ? 0 : failures + 1
      isRenewed &&= livedMs === undefined
      const refusal = REFUSALS[code]
      const isOld = code === REFUSED_CODES.unauthenticated && tokens.reject(held)
      if (isOld && !isRenewed) isRenewed = true
      else if (refusal) finishAll(refused(refusal, reason))
      if (livedMs !== undefined) unopened = 0
      const isClosed = code === REFUSED_CODES.tooMany ? livedMs === undefined : code === LOST && !hasOpened
      if (isClosed && (unopened += 1) === MOST_UNOPENED) {
        usable = new AbortController()
        finishAll('other')
      }
      const pauseMs = usable.signal.aborted ? backoffMs(failures, random) : RETRY_MS
      if (isWanted()) await nap.sleep(pauseMs, closing.signal)
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
    if (isRunning || !isWanted()) return
    isRunning = true
    void run().finally(() => {
      isRunning = false
      start() // something may have been followed just as the run ended
    })
  }
  /** Ends a follower on the pod. If another one follows the same session under another name, this ends it, too: it begins again. */
  const leave = (member: Member) => {
    const command = member.follower.command()
    const goOn = () => {
      for (const other of members)
        if (other.name !== undefined && (member.name === undefined || other.name === member.name))
          begin(other)
    }
    current?.ask(
      command.type === 'join' ? { type: 'leave', session: command.session } : { type: 'inbox', on: false },
      { onAnswer: goOn, onFailure: goOn },
    )
    void retireIdle()
  }
  return {
    usable: () => usable.signal,
    follow: (follower, signal) =>
      new Promise((resolve) => {
        if (signal.aborted) return resolve('aborted')
        const member: Member = { follower, end: resolve, name: undefined, sinceMs: NaN, failures: 0 }
        signal.addEventListener('abort', () => finish(member, 'aborted') && leave(member), { once: true })
        members.add(member)
        begin(member)
        start()
      }),
    request: (command, signal) => {
      const socket = current
      if (!socket || !fits(command)) return undefined
      return within(
        clock,
        signal,
        () =>
          new Promise((resolve, reject) =>
            socket.ask(command, {
              onAnswer: ({ type: _type, cid: _cid, ...answer }) => resolve(answer as never),
              onFailure: reject,
            }),
          ),
      )
    },
    wake: () => {
      nap.wake()
      if (current?.isDoubtful() === true) current.cut()
    },
    close: () => closing.abort(),
  }
}

/** Why the client must not connect again by itself. */
const REFUSALS: Readonly<Record<number, string>> = {
  [REFUSED_CODES.unauthenticated]: 'unauthenticated',
  [REFUSED_CODES.otherUser]: 'forbidden',
  [REFUSED_CODES.malformed]: STRANGER,
}

/** A frame that is too large, or nested too deep, would end the connection for all: it goes over HTTP, where it is refused alone. */
function fits(command: Command): boolean {
  const text = JSON.stringify(command)
  return text.length < MOST_CHARACTERS && text.split(/[[{]/).length < MOST_BRACKETS
}
const MOST_CHARACTERS = 100_000
const MOST_BRACKETS = 64
