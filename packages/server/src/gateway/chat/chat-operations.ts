// What pages with the AI SDK do in a chat: send, edit, regenerate, resume, stop, load.
import {
  formatId,
  PAGE_LIMITS,
  parseId,
  type Ack,
  type Message,
  type Session,
  type StopAck,
} from '@fleetline/protocol'
import { outOfScope } from '../../door/scope.ts'
import { Rejected } from '../../errors.ts'
import type { Principal } from '../../identity/principal.ts'
import { draftOf } from '../../session/draft.ts'
import type { SessionKey } from '../../session/items.ts'
import { formatRanges } from '../../session/seq-ranges.ts'
import type { Sessions } from '../../session/sessions.ts'
import type { MessageVersion } from '../../session/versions.ts'
import { READ } from '../caller.ts'
import type { Operations } from '../operations.ts'
import { itemsFor } from '../seen.ts'
import { notFound } from '../session-key.ts'
import { findSession, openSession, type ChatSessionDeps } from './chat-session.ts'
import { wantedBy, type ChatRequest, type UserMessage } from './chat-request.ts'
import type { ReplyStreams, ChatReader, Reply } from './reply-streams.ts'

export type ChatOperations = {
  /** Sends what the request asks for, and returns the reply. */
  readonly submit: (reader: ChatReader, request: ChatRequest) => Promise<Reply>
  /** The reply that is being written. Undefined: there is none. */
  readonly resume: (reader: ChatReader, id: string) => Promise<Reply | undefined>
  /** Stops the live turn, if it is this one. */
  readonly stop: (principal: Principal | null, id: string, turn: string | undefined) => Promise<StopAck>
  /** The last messages of the conversation. */
  readonly load: (principal: Principal | null, id: string, limit: number) => Promise<readonly Message[]>
}
type Deps = ChatSessionDeps & {
  readonly sessions: Pick<
    Sessions,
    'create' | 'find' | 'findTurn' | 'findAnswering' | 'findVersion' | 'hasSpoken' | 'readConversation'
  >
  readonly operations: Pick<Operations, 'send' | 'edit' | 'regenerate' | 'stop'>
  readonly replies: ReplyStreams
  readonly cell: number
}
/** The session of a chat, and its caller. */
type Chat = { readonly reader: ChatReader; readonly key: SessionKey; readonly author: string | undefined }

const NOT_STOPPED: StopAck = { stopped: false, seq: null }
const MOST_TRIES = 3
const PAGE_BYTES = 2 * 1024 * 1024

export function createChatOperations(deps: Deps): ChatOperations {
  const { sessions, operations, replies } = deps
  return {
    submit: async (reader, request) => {
      const refusal = reader.principal && outOfScope(reader.principal, READ) // the answer is a reply
      if (refusal) throw refusal
      const wanted = wantedBy(request)
      const { author } = request
      const chat = { reader, key: await openSession(deps, reader.principal, request), author }
      if (wanted.type === 'regenerate') return regenerate(deps, chat, wanted)
      return wanted.type === 'send' ? send(deps, chat, wanted.message) : edit(deps, chat, wanted.message)
    },
    resume: async (reader, id) => {
      const key = await findSession(deps, reader.principal, id)
      const turn = key && (await sessions.find(key))?.turn
      return turn ? replies.ofTurn(reader, key, turn) : undefined
    },
    stop: async (principal, id, named) => {
      const key = await findSession(deps, principal, id)
      const live = key && (await sessions.find(key))?.turn
      const turn =
        live && (named === undefined || named === live)
          ? await sessions.findTurn(key.tenant, live)
          : undefined
      if (!key || !turn) return NOT_STOPPED
      return operations.stop(
        { principal, part: 'body', session: nameOf(deps, key) },
        { turn: turn.id, epoch: turn.epoch },
      )
    },
    load: async (principal, id, limit) => {
      const key = await findSession(deps, principal, id)
      const range = { before: PAGE_LIMITS.seq, limit, maxBytes: PAGE_BYTES }
      const live = key && (await sessions.find(key))?.turn
      const replaces = live && (await sessions.findTurn(key.tenant, live))?.replaces
      const also = replaces ? formatRanges(replaces) : null
      const page = key && (await sessions.readConversation(key, { ...range, also }))
      return itemsFor(principal, page?.items ?? [])
        .filter(({ parts }) => parts.length > 0) // erased, or not for this caller
        .map(({ id, role, parts, metadata }) => ({ id, role, parts, ...(metadata && { metadata }) }))
    },
  }
}

async function send(
  { operations, replies, cell }: Deps,
  { reader, key, author }: Chat,
  message: UserMessage,
): Promise<Reply> {
  const { principal } = reader
  const asking = { principal, part: 'body', session: formatId('session', cell, key.session) } as const
  const ack = await operations.send(asking, { message, author })
  return replies.to(reader, key, answerOf(ack))
}

/** The message that the id named first may have been edited since, and its author may have sent this content before. */
async function edit(deps: Deps, chat: Chat, message: UserMessage): Promise<Reply> {
  const { sessions, operations, replies } = deps
  const { reader, key, author } = chat
  const asking = { principal: reader.principal, part: 'body', session: nameOf(deps, key) } as const
  return atEpoch(deps, key, async ({ epoch }) => {
    const version = await sessions.findVersion(key, message.id)
    if (!version) return send(deps, chat, message)
    if (version.isReplaced)
      throw new Rejected('stale', 'This message was replaced. Load the conversation again.')
    if (isSame(version, message)) return replies.to(reader, key, version)
    const { parts, metadata } = message
    const ack = await operations.edit(asking, version.id, { epoch, parts, metadata, author })
    return replies.to(reader, key, answerOf(ack))
  })
}

/** A page that has lost its request asks again like this: it gets the reply that is on its way. */
async function regenerate(
  deps: Deps,
  chat: Chat,
  { message, asked }: { readonly message?: string; readonly asked?: UserMessage },
): Promise<Reply> {
  const { sessions, operations, replies } = deps
  const { reader, key } = chat
  const asking = { principal: reader.principal, part: 'body', session: nameOf(deps, key) } as const
  return atEpoch(deps, key, async ({ epoch, turn: live }) => {
    const version = message === undefined ? undefined : await sessions.findVersion(key, message)
    if (!version && asked) return send(deps, chat, asked)
    if (version?.role === 'user') {
      const isAuthor = !reader.principal?.user || reader.principal.user.id === version.author
      if (asked && isAuthor && !isSame(version, asked)) return edit(deps, chat, asked) // the edit did not arrive
      if (await isUnspoken(deps, key, version)) return replies.to(reader, key, version)
    } else if (message !== undefined) {
      const successor = await findSuccessor(deps, key, { message, version, live })
      if (successor) return (await replies.ofTurn(reader, key, successor))!
    }
    const { turn } = await operations.regenerate(asking, { epoch, message: version?.id ?? message })
    return (await replies.ofTurn(reader, key, turn))! // it has just begun
  })
}

type Named = {
  readonly message: string
  readonly version: MessageVersion | undefined
  readonly live: string | null
}

/** Finds the turn that replaces this reply. A page names a replaced reply if it repeats a lost request, or if another page was faster. While
 *  that turn is live, nothing is replaced yet, so its `replaces` is checked. A reply that was stopped before it was stored has no version;
 *  then its turn is compared with the live one by the messages that they answer. */
async function findSuccessor(
  { sessions, cell }: Deps,
  key: SessionKey,
  { message, version, live }: Named,
): Promise<string | undefined> {
  const id = parseId('message', message)
  const turnOf = async (turn: string) => {
    const found = await sessions.findTurn(key.tenant, turn)
    return found && parseId('session', found.session)?.uuid === key.session ? found : undefined
  }
  const own = id && (await turnOf(formatId('turn', cell, id.uuid)))
  const now = live === null || live === own?.id ? undefined : await turnOf(live)
  if (!own) return undefined
  if (now?.replaces) {
    const isIts = version ? now.replaces[0]?.[0] === version.seq : now.answers.from === own.answers.from
    if (isIts) return now.id
  }
  if (version && !version.isReplaced) return undefined
  const newest = await sessions.findAnswering(key, own.answers.to ?? own.answers.from)
  if (!newest || newest.id === own.id) return undefined
  const reply = await sessions.findVersion(key, newest.message)
  return reply?.isReplaced ? undefined : newest.id // it may have left the conversation, too
}

/** Runs a command at the session's current epoch, because the page knows none. If the epoch changes meanwhile, it tries again. */
async function atEpoch<Answer>(
  deps: Deps,
  key: SessionKey,
  run: (facts: Session) => Promise<Answer>,
): Promise<Answer> {
  for (let tries = 1; ; tries += 1) {
    const facts = await findFacts(deps, key)
    try {
      return await run(facts)
    } catch (error) {
      const isLate = error instanceof Rejected && error.code === 'stale' && facts.state !== 'compacting'
      if (!isLate || tries === MOST_TRIES) throw error
    }
  }
}

/** Whether the reply to this message has not said anything yet. */
async function isUnspoken(
  { sessions }: Deps,
  key: SessionKey,
  { seq, isWaiting }: MessageVersion,
): Promise<boolean> {
  const turn = await sessions.findAnswering(key, seq)
  if (!turn) return isWaiting
  if (turn.endedAt !== null) return false
  return !(await sessions.hasSpoken({ tenant: key.tenant, turn: parseId('turn', turn.id)!.uuid }))
}

/** Whether this is what the message says. */
function isSame({ author: id, digest }: MessageVersion, message: UserMessage): boolean {
  const { metadata, ...said } = message
  const author = { kind: 'user', ...(id !== null && { id }) } as const
  return draftOf({ ...said, ...(metadata && { metadata }), author }).digest === digest
}

function answerOf({ seq, turn, epoch }: Ack) {
  return { seq, isWaiting: turn !== undefined || epoch !== undefined }
}

async function findFacts({ sessions }: Deps, key: SessionKey) {
  const facts = await sessions.find(key)
  if (!facts) throw notFound()
  return facts
}

function nameOf({ cell }: Deps, { session }: SessionKey) {
  return formatId('session', cell, session)
}
