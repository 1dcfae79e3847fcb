// One connection to a pod over a WebSocket. It is over when it is closed, when nothing is heard for 40 s, or when it does not open in
// 10 s. Requests that have no answer by then fail with an unknown outcome.
import {
  SOCKET_PROTOCOL,
  type AckFrame,
  type ClientFrame,
  type ErrorFrame,
  type JoinedFrame,
  type ServerFrame,
} from '@fleetline/protocol'
import type { Clock } from './clock.ts'
import { FleetlineError, unavailable } from './failure.ts'
import { watchOf } from './watch.ts'

type Bare<One> = One extends { readonly cid: string } ? Omit<One, 'cid'> : never
export type Command = Bare<ClientFrame>
export type Answer = AckFrame | JoinedFrame
export type Outcome = {
  readonly onAnswer: (answer: Answer) => void
  readonly onFailure: (error: FleetlineError) => void
}
export type Ended = {
  readonly code: number
  readonly reason: string
  /** It was open. */ readonly wasOpen: boolean
}

export type Socket = {
  /** Aborted when the connection is over. */
  readonly signal: AbortSignal
  readonly over: Promise<Ended>
  /** Resolves when the pod has accepted the token. */
  readonly welcomed: Promise<void>
  /** Sends a command, and calls one of the functions. Frames that follow an answer come after `onAnswer`. */
  readonly ask: (command: Command, on: Outcome) => void
  readonly hello: (token: string | undefined) => void
  readonly isDoubtful: () => boolean
  /** Cuts the connection if its pod does not answer a ping. */
  readonly probe: () => void
  readonly cut: () => void
  /** Closes it when all requests are answered. */
  readonly retire: () => void
}
type Deps = {
  readonly url: string
  readonly WebSocket: typeof WebSocket
  readonly clock: Clock
  readonly token: string | undefined
  readonly onFrame: (frame: ServerFrame) => void
}

const OPEN_MS = 10_000
const PONG_MS = 5_000

export function openSocket({ url, WebSocket, clock, token, onFrame }: Deps): Socket {
  const raw = new WebSocket(url, [SOCKET_PROTOCOL])
  const [ending, opened] = [new AbortController(), new AbortController()]
  const [over, welcomed] = [Promise.withResolvers<Ended>(), Promise.withResolvers<void>()]
  const watch = watchOf(clock, ending.signal)
  const waiting = new Map<string, Outcome>()
  let [count, wasOpen, isRetiring] = [0, false, false]
  const end = (code: number, reason: string) => {
    if (ending.signal.aborted) return
    ending.abort()
    opened.abort()
    raw.close()
    for (const { onFailure } of waiting.values()) onFailure(unavailable('The connection was lost.'))
    waiting.clear()
    over.resolve({ code, reason, wasOpen })
  }
  const say = (frame: object): boolean => {
    if (raw.readyState !== 1) return false
    raw.send(JSON.stringify(frame))
    return true
  }
  const hello = (token: string | undefined) =>
    void say({ type: 'hello', ...(token !== undefined && { token }) })
  const settle = (cid: string, how: (one: Outcome) => void) => {
    const one = waiting.get(cid)
    waiting.delete(cid)
    if (one) how(one)
    if (isRetiring && waiting.size === 0) end(1000, '')
  }
  const take = (frame: ServerFrame) => {
    if (frame.type === 'welcome') {
      opened.abort()
      welcomed.resolve()
    } else if (frame.type === 'ack' || frame.type === 'joined')
      settle(frame.cid, ({ onAnswer }) => onAnswer(frame))
    else if (frame.type === 'error') settle(frame.cid ?? '', ({ onFailure }) => onFailure(errorOf(frame)))
    else onFrame(frame)
  }
  const listening = { signal: ending.signal }
  raw.addEventListener(
    'open',
    () => {
      wasOpen = true
      hello(token)
    },
    listening,
  )
  raw.addEventListener(
    'message',
    ({ data }) => {
      watch.heard()
      take(JSON.parse(String(data)) as ServerFrame)
    },
    listening,
  )
  raw.addEventListener('close', ({ code, reason }) => end(code, reason), listening)
  watch.signal.addEventListener('abort', () => end(1006, ''))
  clock.sleep(OPEN_MS, opened.signal).then(
    () => end(1006, ''),
    () => undefined, // it is open, or over
  )
  return {
    signal: ending.signal,
    over: over.promise,
    welcomed: welcomed.promise,
    hello,
    ask: (command, on) => {
      const cid = `${(count += 1)}`
      if (say({ cid, ...command })) waiting.set(cid, on)
      else on.onFailure(unavailable('The connection was lost.'))
    },
    isDoubtful: watch.isDoubtful,
    probe: () => {
      say({ type: 'ping' })
      watch.doubt(PONG_MS)
    },
    cut: () => end(1000, ''),
    retire: () => {
      isRetiring = true
      if (waiting.size === 0) end(1000, '')
    },
  }
}

function errorOf({ code, text, retryable, retryAfterMs = 0 }: ErrorFrame): FleetlineError {
  return new FleetlineError({ code, text }, { isRefused: !retryable, retryAfterMs })
}
