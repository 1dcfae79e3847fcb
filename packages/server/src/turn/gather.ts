// Collects what the agent is called with: the log up to where its turn reads. The order is that of the conversation: a reply
// comes right after the last message that it answers, even if other messages arrived before it was written. A long
// conversation is cut at its beginning, as the agent's window says. The window never leaves out a message that asks for the reply
// (E4). A summary stands in place of the messages that it covers. Messages in whose place others stand are left out. Pure, except for the
// reads.
import { formatId, type Item, type Message } from '@fleetline/protocol'
import type { AgentCall } from '../agent/agent.ts'
import type { HistoryWindow } from '../agent/settings.ts'
import type { SessionKey } from '../session/items.ts'
import type { Replay } from '../session/replay.ts'
import { parseRanges } from '../session/seq-ranges.ts'
import type { OpenTurn } from '../session/turns.ts'
import type { Claim } from '../task/claim.ts'

const SUMMARY = 'Summary of this conversation so far:'

type Deps = Pick<Replay, 'read' | 'readConversation'> & {
  readonly cell: number
  readonly window: HistoryWindow
}

export type Gathered = {
  /** Without its deadline and its signal. */
  readonly call: Omit<AgentCall, 'signal' | 'deadlineMs'>
  /** False: all messages that asked for the reply were erased. */
  readonly isAsked: boolean
  /** Messages were left out that no summary covers. */
  readonly isCut: boolean
}

/** Undefined: the session was erased. `stale`: messages were erased since the turn was opened, so its summary may quote them. */
export async function gather(
  { read, readConversation, cell, window }: Deps,
  { id, tenant, spent }: Claim,
  turn: OpenTurn,
): Promise<Gathered | 'stale' | undefined> {
  const { session, epoch, agent, readFrom, askedFrom, readTo, title, metadata, summarised, summary } = turn
  const key = { tenant, session }
  const [before, isAsked] = [readTo + 1, ({ seq }: Item) => seq >= askedFrom]
  const limit = Math.max(window.messages, before - askedFrom) // `TURN_OPEN` sees to it that a call can carry so many
  const range = { before, limit, also: turn.replaces }
  let page = await readConversation(key, { ...range, maxBytes: window.bytes })
  if (page && !page.items.some(({ seq }) => seq <= askedFrom)) page = await readConversation(key, range)
  if (!page) return undefined
  if (page.eraseCount !== turn.eraseCount) return 'stale'
  const unsummarised = page.items.filter(({ seq }) => seq > summarised)
  const kept = cutToWindow(unsummarised, window, isAsked)
  const items = inOrder(kept.filter(isNotErased))
  const user = items.findLast(({ role }) => role === 'user')?.author.id
  const sessionId = formatId('session', cell, session)
  const call: Gathered['call'] = {
    id: sessionId,
    ...(await triggerOf({ read }, key, turn)),
    messages: [...summaryMessage(summary, summarised), ...items.map(messageOf)],
    turn: {
      id: formatId('turn', cell, id),
      epoch,
      attempt: spent,
      messageId: formatId('message', cell, id),
      answers: { from: readFrom, to: readTo },
      resume: 'restart',
    },
    session: { id: sessionId, title, metadata },
    ...(user === undefined ? {} : { user: { id: user } }),
    agent: { id: agent },
  }
  return {
    call,
    isAsked: items.some((item) => item.role === 'user' && isAsked(item) && doesAsk(item, turn)),
    isCut: await isCut(readConversation, { ...key, turn, first: kept[0]?.seq ?? 0 }),
  }
}

/** A note asks for nothing, unless somebody wants it answered: then the turn writes a reply anew. */
function doesAsk({ seq }: Item, { asked, replaces }: OpenTurn): boolean {
  return replaces !== null || seq <= asked
}

type Kept = SessionKey & {
  readonly turn: OpenTurn
  /** The seq of the first message that the agent gets. */ readonly first: number
}

/** Whether there are messages between the summary and the first message that the agent gets. */
async function isCut(
  readConversation: Replay['readConversation'],
  { tenant, session, turn: { summarised, replaces }, first }: Kept,
): Promise<boolean> {
  if (first <= summarised + 1) return false
  const page = await readConversation({ tenant, session }, { after: summarised, limit: 1, also: replaces })
  return (page?.items[0]?.seq ?? first) < first
}

/** An agent that keeps a conversation of its own finds there what it writes anew. */
async function triggerOf(
  { read }: Pick<Replay, 'read'>,
  key: SessionKey,
  { replaces }: OpenTurn,
): Promise<Pick<AgentCall, 'trigger' | 'messageId'>> {
  if (replaces === null) return { trigger: 'submit-message' }
  const [first] = parseRanges(replaces)
  const page = first && (await read(key, { before: first[0] + 1, limit: 1 }))
  const [item] = page?.items ?? []
  return { trigger: 'regenerate-message', ...(item?.role === 'assistant' && { messageId: item.id }) }
}

/** Whether messages were erased since `eraseCount` was read. True also if that cannot be read: the next attempt to open the turn says why. */
export async function isStale(
  { read }: Pick<Replay, 'read'>,
  { tenant, session, eraseCount }: SessionKey & { readonly eraseCount: number },
): Promise<boolean> {
  const page = await read({ tenant, session }, { before: 1, limit: 0 }).catch(() => undefined) // without any message
  return page?.eraseCount !== eraseCount
}

/** The last items that fit into the window. Of `items`, those that ask for the reply are kept even if they do not fit. */
export function cutToWindow(
  items: readonly Item[],
  { messages, bytes }: HistoryWindow,
  isAsked: (item: Item) => boolean,
): Item[] {
  let [count, size] = [0, 0]
  const first = items.findLastIndex((item) => {
    count += 1
    size += Buffer.byteLength(JSON.stringify(messageOf(item)))
    return !isAsked(item) && (count > messages || size > bytes)
  })
  return items.slice(first + 1)
}

export function isNotErased({ erased }: Item): boolean {
  return !erased
}

export function inOrder(items: readonly Item[]): Item[] {
  const placeOf = ({ seq, answers }: Item) => (answers === undefined ? seq : answers + 0.5)
  return items.toSorted((a, b) => placeOf(a) - placeOf(b) || a.seq - b.seq)
}

/** The summary has the role `user`, because some providers accept a system message only at the very beginning, where the agent puts
 *  its own. */
export function summaryMessage(text: string | null, upto: number): Message[] {
  if (text === null) return []
  return [{ id: `summary-${upto}`, role: 'user', parts: [{ type: 'text', text: `${SUMMARY}\n\n${text}` }] }]
}

export function messageOf({ id, role, parts, metadata }: Item): Message {
  return { id, role, parts, ...(metadata === undefined ? {} : { metadata }) }
}
