// An agent that says how many tokens it has used. It counts words, because it calls no model.
import { agent } from 'fleetline'

export const clerk = agent('clerk', async function* ({ messages }) {
  const words = messages.flatMap(({ parts }) => parts.flatMap(({ text }) => String(text).split(' ')))
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: 'Noted.' }
  yield { type: 'text-end', id: '1' }
  const usage = { inputTokens: words.length, outputTokens: 1 }
  yield { type: 'finish', messageMetadata: { model: 'word-counter', usage } }
})
