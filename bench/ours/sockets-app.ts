// The agent of `bench sockets`, as an app of a pod. Messages say how much it shall say.
import { agent } from 'fleetline'
import { speakStamped, type Wanted } from '../support/stamped-speech.ts'

export const bot = agent('bot', ({ messages }) => {
  const asked = messages.findLast(({ role }) => role === 'user')
  return speakStamped(JSON.parse(String(asked?.parts[0]?.['text'])) as Wanted)
})
