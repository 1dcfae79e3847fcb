// Runs the commands of one socket. Guarantees:
//   each command gets one answer, unless the socket ends first
//   commands that name the same session run one after the other, in the order in which they came
//   at most 16 run at once; `onBusy` is called when more have come, and when all of those have begun
//   a command runs only if the caller's key or token allows it now (S2, S3)
import { ERROR_CODES, SOCKET_LIMITS } from '@fleetline/protocol'
import { Rejected, Retry } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import { refusalOf } from './refusal.ts'
import { parserOf } from './route.ts'
import { outOfScope } from './scope.ts'
import type { FrameFields, SocketAnswer, SocketRoute, SocketSide } from './socket-route.ts'

export type SocketCommands = { readonly take: (frame: FrameFields) => void }

type Deps = {
  readonly route: SocketRoute
  readonly side: SocketSide
  readonly caller: () => Principal
  /** Whether the caller was let in a moment ago. */
  readonly isAdmitted: () => boolean
  /** Counts a request of the caller. Throws if it sends too many. */
  readonly countRequest: (principal: Principal) => void
  readonly answer: (frame: object) => void
  readonly onBusy: (isBusy: boolean) => void
  readonly onAnswered: (command: string, outcome: string) => void
  readonly onError: (command: string, error: unknown, requestId: string) => void
  readonly drawId: () => string
  readonly signal: AbortSignal
}

const AT_ONCE = 16

export function createSocketCommands(deps: Deps): SocketCommands {
  const waiting: FrameFields[] = []
  const last = new Map<unknown, Promise<void>>()
  let running = 0
  const begin = (frame: FrameFields) => {
    running += 1
    const of = frame[deps.route.dialect.order] // undefined for the inbox: its commands are in order, too
    const done = runOne(deps, frame, last.get(of)).finally(() => {
      running -= 1
      if (last.get(of) === done) last.delete(of)
      next()
    })
    last.set(of, done)
  }
  const next = () => {
    if (waiting.length === 0) return
    while (waiting.length > 0 && running < AT_ONCE) begin(waiting.shift()!)
    if (waiting.length === 0) deps.onBusy(false)
  }
  return {
    take: (frame) => {
      if (running < AT_ONCE) return begin(frame)
      if (waiting.push(frame) === 1) deps.onBusy(true)
    },
  }
}

async function runOne(deps: Deps, frame: FrameFields, before: Promise<void> | undefined): Promise<void> {
  const { route, answer, onAnswered, onError, signal, drawId } = deps
  const name = nameIn(route, frame)
  const { cid: field, errorOf } = route.dialect
  const cid = isCid(frame[field]) ? { [field]: frame[field] } : {}
  try {
    await before
    if (signal.aborted) return
    const answered = await handle(deps, frame, name)
    try {
      answer(route.frames.parse({ ...answered.frame, ...cid }))
    } finally {
      answered.onAnswered?.() // also if the answer cannot be sent: what was opened has to end
    }
    onAnswered(name ?? 'unknown', 'done')
  } catch (error) {
    const requestId = drawId()
    onError(name ?? 'unknown', error, requestId)
    const refusal = refusalOf(error)
    answer({ ...errorOf(refusal, requestId), ...cid })
    onAnswered(name ?? 'unknown', refusal.code)
  }
}

async function handle(deps: Deps, frame: FrameFields, name: string | undefined): Promise<SocketAnswer> {
  const { route, side, caller, isAdmitted, countRequest } = deps
  const principal = caller()
  countRequest(principal)
  if (!isAdmitted()) throw new Retry('unavailable', ERROR_CODES.unavailable.meaning)
  if (name === undefined) {
    const names = [...(route.dialect.tokenIn ? [] : ['hello', 'ping']), ...Object.keys(route.commands)].join(
      ', ',
    )
    throw new Rejected('invalid', `frame.type: must be one of ${names}`)
  }
  const { cid } = route.dialect
  if (!isCid(frame[cid]))
    throw new Rejected('invalid', `frame.${cid}: must be text of 1 to ${SOCKET_LIMITS.cidLength} characters`)
  const command = route.commands[name]!
  const lack = outOfScope(principal, command.access)
  if (lack) throw lack
  const parsed = parserOf(command.frame, 'frame')(frame)
  if (parsed.error) throw parsed.error
  return command.handle(side, parsed.value as never, principal)
}

function nameIn({ commands }: SocketRoute, { type }: FrameFields): string | undefined {
  return typeof type === 'string' && Object.hasOwn(commands, type) ? type : undefined
}

function isCid(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= SOCKET_LIMITS.cidLength
}
