// Collects what the agent is called with: the log up to where its turn reads. The order is that of the conversation: a reply
// comes right after the last message that it answers, even if other messages arrived before it was written. A long
// conversation is cut at its beginning, as the agent's window says. A summary stands in place of the messages that it covers. Pure,
// except for the read.
import { formatId, type Item, type Message } from '@fleetline/protocol'
import type { AgentCall } from '../agent/agent.ts'
import type { HistoryWindow } from '../agent/settings.ts'
import { Bug } from '../errors.ts'
import type { Replay } from '../session/replay.ts'
import type { OpenTurn } from '../session/turns.ts'
import type { Claim } from '../task/claim.ts'

const SUMMARY = 'Summary of this conversation so far:'

type Deps = Replay & { readonly cell: number; readonly window: HistoryWindow }

/** The call without its deadline and its signal. */
export async function gather(
  { read, cell, window }: Deps,
  { id, tenant, spent }: Claim,
  { session, epoch, agent, readFrom, readTo, title, summarised, summary }: OpenTurn,
): Promise<Omit<AgentCall, 'signal' | 'deadlineMs'>> {
  const page = await read(
    { tenant, session },
    { before: readTo + 1, limit: window.messages, maxBytes: window.bytes },
  )
  if (!page) throw new Bug('The session of a live turn is not there')
  const items = inOrder(page.items.filter(({ seq }) => seq > summarised))
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
