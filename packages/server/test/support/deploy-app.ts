// The app of the pods that a proof restarts. Its agent replies to `tell SECONDS` with a word every 200 ms, and to anything else at once. It notes
// each call in the file that TELLER_CALLS names: the turn and the attempt.
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { agent } from 'fleetline'

const WORD_MS = 200

/** The whole reply. */
export function replyTo(text: string): string {
  return wordsFor(text).join('')
}

function wordsFor(text: string): string[] {
  const [verb, seconds] = text.split(' ')
  if (verb !== 'tell') return [`heard: ${text}`]
  return Array.from({ length: (Number(seconds) * 1_000) / WORD_MS }, (_, n) => `word ${n} `)
}

export const teller = agent('teller', async function* ({ messages, turn, signal }) {
  appendFileSync(process.env['TELLER_CALLS']!, `${turn.id} ${turn.attempt}\n`)
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  for (const [n, delta] of wordsFor(String(messages.at(-1)!.parts[0]!['text'])).entries()) {
    if (n > 0) await pause(WORD_MS, undefined, { signal })
    yield { type: 'text-delta', id: '1', delta }
  }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
})
