// Reads the texts and reasonings of an agent. Messages of other roles are not part of its reply.
import { ChunkError } from '@fleetline/protocol'
import type { AgUiEvent } from './parse-event.ts'
import type { Speaker } from './speaker.ts'

const KINDS = { TEXT_MESSAGE: 'text', REASONING_MESSAGE: 'reasoning' } as const
export type WordsPrefix = keyof typeof KINDS

const MOST_OTHERS = 1_000

export type WordsReader = {
  /** Takes an event TEXT_MESSAGE_… or REASONING_MESSAGE_…. */
  readonly take: (prefix: WordsPrefix, event: AgUiEvent) => void
  /** A message that is open, and the event that would end it. */
  readonly findOpen: () => { readonly id: string; readonly end: string } | undefined
}

export function createWordsReader(speaker: Speaker): WordsReader {
  const open = { TEXT_MESSAGE: new Set<string>(), REASONING_MESSAGE: new Set<string>() }
  const others = new Set<string>() // of other roles
  const start = (prefix: WordsPrefix, id: string, isOfOther: boolean) => {
    if (open[prefix].has(id) || others.has(id))
      throw new ChunkError(
        `${prefix}_START: the message ${nameOf(id)} is open already. Send ${prefix}_END first`,
      )
    if (isOfOther && others.size === MOST_OTHERS)
      throw new ChunkError(`TEXT_MESSAGE_START: at most ${MOST_OTHERS} messages of other roles may be open`)
    if (isOfOther) return void others.add(id)
    speaker.beginStep()
    open[prefix].add(id)
    speaker.say({ type: `${KINDS[prefix]}-start`, id })
  }
  const mustBeOpen = (prefix: WordsPrefix, type: string, id: string) => {
    if (open[prefix].has(id)) return
    throw new ChunkError(
      `${type}: no message ${nameOf(id)} is open. Send ${prefix}_START first, with the same messageId`,
    )
  }
  return {
    take: (prefix, { type, messageId, role = 'assistant', delta }) => {
      const id = String(messageId)
      const isOfOther = prefix === 'TEXT_MESSAGE' && role !== 'assistant'
      if (type === `${prefix}_START`) return start(prefix, id, isOfOther)
      const isEnd = type === `${prefix}_END`
      if (prefix === 'TEXT_MESSAGE' && others.has(id)) return void (isEnd && others.delete(id))
      mustBeOpen(prefix, type, id)
      if (!isEnd) return speaker.say({ type: `${KINDS[prefix]}-delta`, id, delta: String(delta) })
      open[prefix].delete(id)
      speaker.sayLater({ type: `${KINDS[prefix]}-end`, id })
    },
    findOpen: () => {
      const [reasoning] = open.REASONING_MESSAGE
      const [text = reasoning] = [...open.TEXT_MESSAGE, ...others]
      if (text === undefined) return undefined
      return { id: text, end: text === reasoning ? 'REASONING_MESSAGE_END' : 'TEXT_MESSAGE_END' }
    },
  }
}

/** As much of an id as may stand in an error. */
export function nameOf(id: string): string {
  return id.slice(0, 64)
}
