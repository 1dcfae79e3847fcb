// Sessions for a program that has the pod in its own process.
import type {
  Ack,
  ExportLine,
  Frame,
  InboxFrame,
  InboxPage,
  InboxShow,
  Metadata,
  Page,
  Part,
  ReadAck,
  RegenerateAck,
  Role,
  Session,
  StopAck,
  Turn,
} from '@fleetline/protocol'
import type { Events } from '../door/events.ts'
import type { Lines } from '../door/lines.ts'
import type { StreamSource } from '../door/stream.ts'
import { kindOf, Retry, type Rejected } from '../errors.ts'
import type { SessionChange } from '../session/changes.ts'
import type { RouteCaller } from './in-process.ts'

export type PodSessions = {
  /** If the alias is taken, resolves to the session that has it. */
  create(wanted?: NewSession): Promise<Session>
  /** Takes an id or an alias. */
  get(session: string): Promise<Session | undefined>
  /** Changes the title or the metadata, archives the session or un-archives it. What is left out stays. Undefined: there is no such
   *  session. */
  change(session: string, change: SessionChange): Promise<Session | undefined>
  /** The newest first. */
  list(range?: { readonly before?: string; readonly limit?: number }): Promise<readonly Session[]>
  /** Resolves when the message is committed. In a session with an agent, the acknowledgement names the turn that replies. */
  send(session: string, content: string | NewMessage, options?: SendOptions): Promise<Ack>
  /** A page of the log; without a range, the last messages. */
  read(session: string, range?: ReadRange): Promise<Page>
  turn(id: string): Promise<Turn | undefined>
  /** Writes a reply anew, or answers a message of a user anew. Rejects with `stale` if the session has another epoch by now. */
  regenerate(
    session: string,
    wanted: { readonly epoch: number; readonly message?: string },
  ): Promise<RegenerateAck>
  /** Puts another message in the place of a message of a user. Rejects with `stale` if the session has another epoch by now. */
  edit(session: string, message: string, content: EditContent): Promise<Ack>
  /** Stops this turn, wherever it runs. `stopped: false`: it is not the live one any more. */
  stop(session: string, turn: { readonly turn: string; readonly epoch: number }): Promise<StopAck>
  /** Yields what is stored after a seq and then everything new, until the signal is aborted or the pod stops. A reader that is
   *  too slow gets a `Retry`. */
  follow(session: string, options?: FollowOptions): AsyncIterable<Frame>
  /** Yields the session, its summary and its messages, and then the end. Without an `end`, something is missing. */
  export(session: string, options?: { readonly signal?: AbortSignal }): AsyncIterable<ExportLine>
  /** A page of the user's inbox, the newest sessions first. */
  inbox(user: string, range?: InboxListRange): Promise<InboxPage>
  /** Yields the newest sessions of the user and then each one when it changes, until the signal is aborted or the pod stops. A
   *  reader that is too slow gets a `Retry`. */
  followInbox(user: string, options?: InboxFollowOptions): AsyncIterable<InboxFrame>
  /** Says how far the user has read. */
  markRead(session: string, user: string, seq: number): Promise<ReadAck>
}
type InboxListRange = { readonly show?: InboxShow; readonly cursor?: string; readonly limit?: number }
type InboxFollowOptions = Omit<InboxListRange, 'cursor'> & { readonly signal?: AbortSignal }
type NewSession = {
  readonly alias?: string
  readonly title?: string
  readonly metadata?: Metadata
  readonly agent?: string
  /** Ids of users. */
  readonly members?: readonly string[]
}
type NewMessage = {
  readonly id?: string
  readonly role?: Role
  readonly parts: readonly Part[]
  readonly metadata?: Metadata
}
type SendOptions = {
  /** The id of the author. */
  readonly author?: string
  /** Rejects the message if the log has another head by now. */
  readonly ifHead?: number
  /** False: the agent does not reply to this message. */
  readonly reply?: boolean
}
type EditContent = {
  readonly epoch: number
  readonly parts: readonly Part[]
  readonly metadata?: Metadata
  /** Of the new message. */
  readonly id?: string
  /** The id of the author. */
  readonly author?: string
}
type ReadRange = { readonly after?: number; readonly before?: number; readonly limit?: number }
type FollowOptions = { readonly after?: number; readonly epoch?: number; readonly signal?: AbortSignal }

type Deps = {
  readonly call: RouteCaller
  /** Aborted when the pod stops: followers end. */
  readonly stopping: AbortSignal
}

export function createPodSessions({ call, stopping }: Deps): PodSessions {
  return {
    create: (wanted = {}) => call('POST /v1/sessions', { body: wanted }),
    get: (session) => orUndefined(call<Session>('GET /v1/sessions/:session', { params: { session } })),
    change: (session, change) =>
      orUndefined(call<Session>('PATCH /v1/sessions/:session', { params: { session }, body: change })),
    list: async (range = {}) =>
      (await call<{ sessions: Session[] }>('GET /v1/sessions', { query: range })).sessions,
    send: (session, content, options = {}) => {
      const said = typeof content === 'string' ? { text: content } : { message: content }
      return call('POST /v1/sessions/:session/messages', {
        params: { session },
        body: { ...said, ...options },
      })
    },
    read: (session, range = {}) =>
      call('GET /v1/sessions/:session/messages', { params: { session }, query: range }),
    turn: (turn) => orUndefined(call<Turn>('GET /v1/turns/:turn', { params: { turn } })),
    regenerate: (session, wanted) =>
      call('POST /v1/sessions/:session/regenerate', { params: { session }, body: wanted }),
    edit: (session, message, content) =>
      call('PUT /v1/sessions/:session/messages/:message', { params: { session, message }, body: content }),
    stop: (session, turn) => call('POST /v1/sessions/:session/stop', { params: { session }, body: turn }),
    follow: async function* (session, { signal, ...query } = {}) {
      const events = await call<Events>('GET /v1/sessions/:session/events', { params: { session }, query })
      for await (const { data } of followed(events, stopping, signal)) yield data as unknown as Frame
    },
    export: async function* (session, { signal } = {}) {
      const lines = await call<Lines>('GET /v1/sessions/:session/export', { params: { session } })
      for await (const page of followed(lines, stopping, signal)) yield* page as readonly ExportLine[]
    },
    inbox: (user, range = {}) => call('GET /v1/inbox', { query: { ...range, user } }),
    followInbox: async function* (user, { signal, ...query } = {}) {
      const events = await call<Events>('GET /v1/inbox/events', { query: { ...query, user } })
      for await (const { data } of followed(events, stopping, signal)) yield data as unknown as InboxFrame
    },
    markRead: (session, user, seq) =>
      call('POST /v1/sessions/:session/read', { params: { session }, body: { user, seq } }),
  }
}

async function* followed<One>(
  from: StreamSource<One>,
  stopping: AbortSignal,
  signal: AbortSignal | undefined,
): AsyncGenerator<One> {
  const over = new AbortController()
  const ended = AbortSignal.any([...(signal ? [signal] : []), over.signal, stopping])
  const slow = new Retry('unavailable', 'This follower reads too slowly: follow again')
  const cut = () => {
    over.abort(slow)
    void source.return?.() // frees what it holds, also while the reader is busy elsewhere
  }
  const source = from({ signal: ended, cut })[Symbol.asyncIterator]()
  try {
    yield* { [Symbol.asyncIterator]: () => source }
    if (over.signal.aborted) throw slow
  } finally {
    over.abort()
  }
}

async function orUndefined<Value>(found: Promise<Value>): Promise<Value | undefined> {
  try {
    return await found
  } catch (error) {
    if (kindOf(error) === 'Rejected' && (error as Rejected).code === 'not_found') return undefined
    throw error
  }
}
