// Collects what the agent is called with: the log up to where its turn reads. The order is that of the conversation: a reply
// comes right after the last message that it answers, even if other messages arrived before it was written. A long
// conversation is cut at its beginning, as the agent's window says; messages that ask for the reply are always sent (E4). A summary
// stands in place of the messages that it covers. Pure, except for the read.
import { formatId, type Item, type Message } from '@fleetline/protocol'
import type { AgentCall } from '../agent/agent.ts'
import { SETTING_LIMITS, type HistoryWindow } from '../agent/settings.ts'
import { Bug } from '../errors.ts'
import type { Replay } from '../session/replay.ts'
import type { OpenTurn } from '../session/turns.ts'
import type { Claim } from '../task/claim.ts'

const MOST_ITEMS = SETTING_LIMITS.window.messages.most
const SUMMARY = 'Summary of this conversation so far:'

type Deps = Replay & { readonly cell: number; readonly window: HistoryWindow }

/** The call without its deadline and its signal. */
export async function gather(
  { read, cell, window }: Deps,
  { id, tenant, spent }: Claim,
  { session, epoch, agent, readFrom, askedFrom, readTo, title, summarised, summary }: OpenTurn,
): Promise<Omit<AgentCall, 'signal' | 'deadlineMs'>> {
  const key = { tenant, session }
  const [before, isAsked] = [readTo + 1, ({ seq }: Item) => seq >= askedFrom]
  const limit = Math.min(MOST_ITEMS, Math.max(window.messages, before - askedFrom))
  let page = await read(key, { before, limit, maxBytes: window.bytes })
  if (page && !page.items.some(({ seq }) => seq <= askedFrom)) page = await read(key, { before, limit })
  if (!page) throw new Bug('The session of a live turn is not there')
  const unsummarised = page.items.filter(({ seq }) => seq > summarised)
  const items = inOrder(lastOf(unsummarised, window, isAsked))
  const user = items.findLast(({ role }) => role === 'user')?.author.id
  const sessionId = formatId('session', cell, session)
  return {
    id: sessionId,
    trigger: 'submit-message',
    messages: [...summaryOf(summary, summarised), ...items.map(messageOf)],
    turn: {
      id: formatId('turn', cell, id),
      epoch,
      attempt: spent,
      messageId: formatId('message', cell, id),
      answers: { from: readFrom, to: readTo },
      resume: 'restart',
    },
    session: { id: sessionId, title },
    ...(user === undefined ? {} : { user: { id: user } }),
    agent: { id: agent },
  }
}

/** The last items that fit into the window. Those that ask for the reply are never left out. */
export function lastOf(
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

export function inOrder(items: readonly Item[]): Item[] {
  const placeOf = ({ seq, answers }: Item) => (answers === undefined ? seq : answers + 0.5)
  return items.toSorted((a, b) => placeOf(a) - placeOf(b) || a.seq - b.seq)
}

/** A message of the user: models reject system messages between others. */
export function summaryOf(text: string | null, upto: number): Message[] {
  if (text === null) return []
  return [{ id: `summary-${upto}`, role: 'user', parts: [{ type: 'text', text: `${SUMMARY}\n\n${text}` }] }]
}

export function messageOf({ id, role, parts, metadata }: Item): Message {
  return { id, role, parts, ...(metadata === undefined ? {} : { metadata }) }
}
