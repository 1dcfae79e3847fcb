// An agent that summarises long conversations. It says how much of the conversation it was sent.
import { agent, type CompactCall } from 'fleetline'

type Message = CompactCall['messages'][number]

export const clerk = agent('clerk', answer, {
  compact: ({ messages, through }) => `${through} messages: ${messages.map(beginningOf).join(' / ')}`,
  compaction: { tokenBudget: 1_000 }, // so that you need not talk for long
})

async function* answer({ messages }: { readonly messages: readonly Message[] }) {
  const text = `I was sent ${messages.length} messages. The first: ${textOf(messages[0]!).replaceAll('\n', ' ')}`
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: text.slice(0, 160) }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}

function beginningOf(message: Message): string {
  return textOf(message).slice(0, 12).trim()
}

function textOf({ parts }: Message): string {
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join(' ')
}
