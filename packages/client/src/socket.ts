// One connection to a pod over a WebSocket. It is over when it is closed, when nothing is heard for 40 s, or when it does not open in
// 10 s. A command that has no answer by then, or for 10 s, fails with an unknown outcome. A pod that does not answer in time is asked
// whether it is alive.
import {
  SOCKET_PROTOCOL,
  type AckFrame,
  type ClientFrame,
  type JoinedFrame,
  type ServerFrame,
} from '@fleetline/protocol'
import type { Clock } from './clock.ts'
import { errorOf, unavailable, type FleetlineError } from './failure.ts'
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
  /** How long the pod had accepted it; undefined if it never has. */
  readonly livedMs?: number
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
const ANSWER_MS = 10_000
const PONG_MS = 5_000

export function openSocket({ url, WebSocket, clock, token, onFrame }: Deps): Socket {
  const raw = new WebSocket(url, [SOCKET_PROTOCOL])
  const [ending, opened] = [new AbortController(), new AbortController()]
  const [over, welcomed] = [Promise.withResolvers<Ended>(), Promise.withResolvers<void>()]
  const watch = watchOf(clock, ending.signal)
  const waiting = new Map<string, Outcome & { readonly answered: AbortController }>()
  let [count, isRetiring] = [0, false]
  let sinceMs: number | undefined
  const end = (code: number, reason: string) => {
    if (ending.signal.aborted) return
    ending.abort()
    opened.abort()
    raw.close()
    for (const cid of waiting.keys()) fail(cid)
    over.resolve({ code, reason, ...(sinceMs !== undefined && { livedMs: clock.now() - sinceMs }) })
  }
  const cut = () => end(1006, '')
  const say = (frame: object) => raw.send(JSON.stringify(frame))
  const hello = (token: string | undefined) => {
    if (raw.readyState === 1) say({ type: 'hello', token })
  }
  const settle = (cid: string, how: (one: Outcome) => void) => {
    const one = waiting.get(cid)
    if (!one) return
    waiting.delete(cid)
    one.answered.abort()
    how(one)
    retire()
  }
  const fail = (cid: string) => settle(cid, ({ onFailure }) => onFailure(unheard()))
  const retire = () => {
    if (isRetiring && waiting.size === 0) end(1000, '')
  }
  const take = (frame: ServerFrame) => {
    if (frame.type === 'welcome') {
      sinceMs ??= clock.now()
      opened.abort()
      welcomed.resolve()
    } else if (frame.type === 'ack' || frame.type === 'joined')
      settle(frame.cid, ({ onAnswer }) => onAnswer(frame))
    else if (frame.type === 'error') settle(frame.cid ?? '', ({ onFailure }) => onFailure(errorOf(frame)))
    else onFrame(frame)
  }
  const listening = { signal: ending.signal }
  raw.addEventListener('open', () => hello(token), listening)
  raw.addEventListener('error', () => undefined) // 'close' follows. Some classes throw what nobody listens to
  raw.addEventListener('close', ({ code, reason }) => end(code, reason), listening)
  raw.addEventListener(
    'message',
    ({ data }) => {
      watch.heard()
      take(JSON.parse(String(data)) as ServerFrame)
    },
    listening,
  )
  watch.signal.addEventListener('abort', cut)
  clock.sleep(OPEN_MS, opened.signal).then(cut, () => undefined) // it is open, or over
  return {
    signal: ending.signal,
    over: over.promise,
    welcomed: welcomed.promise,
    hello,
    ask: (command, on) => {
      const cid = `${(count += 1)}`
      if (raw.readyState !== 1) return on.onFailure(unheard())
      say({ cid, ...command })
      const answered = new AbortController()
      waiting.set(cid, { ...on, answered })
      clock.sleep(ANSWER_MS, answered.signal).then(
        () => {
          say({ type: 'ping' })
          watch.doubt(PONG_MS)
          fail(cid)
        },
        () => undefined, // there was one
      )
    },
    isDoubtful: watch.isDoubtful,
    cut,
    retire: () => {
      isRetiring = true
      retire()
    },
  }
}

function unheard(): FleetlineError {
  return unavailable('There is no answer.')
}
