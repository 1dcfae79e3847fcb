// What the agent of `bench turn` says: its first word at once, then one every 10 ms.
import { setTimeout as pause } from 'node:timers/promises'

const WORDS = Array.from({ length: 20 }, (_, n) => `word${n} `)

export const SPEECH = WORDS.join('')

export async function* speak() {
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  for (const delta of WORDS) {
    yield { type: 'text-delta', id: '1', delta }
    await pause(10)
  }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}
