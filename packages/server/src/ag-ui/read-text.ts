// Reads the texts and reasonings of an agent. Messages of other roles are not part of its reply.
import { ChunkError } from '@fleetline/protocol'
import { shortenId, type AgUiEvent } from './parse-event.ts'
import type { ReplyCollector } from './reply-collector.ts'

const KINDS = { TEXT_MESSAGE: 'text', REASONING_MESSAGE: 'reasoning' } as const
export type TextPrefix = keyof typeof KINDS

const MAX_OPEN_OTHER_ROLES = 1_000

export type TextReader = {
  /** Takes an event TEXT_MESSAGE_… or REASONING_MESSAGE_…. */
  readonly take: (prefix: TextPrefix, event: AgUiEvent) => void
  /** A message that is open, and the event that would end it. */
  readonly findOpen: () => { readonly id: string; readonly end: string } | undefined
}

export function createTextReader(collector: ReplyCollector): TextReader {
  const open = { TEXT_MESSAGE: new Set<string>(), REASONING_MESSAGE: new Set<string>() }
  const others = new Set<string>() // of other roles
  const start = (prefix: TextPrefix, id: string, isOfOther: boolean) => {
    if (open[prefix].has(id) || others.has(id))
      throw new ChunkError(`${prefix}_START: the message ${shortenId(id)} is open already`, {
        remedy: `Send ${prefix}_END first`,
      })
    if (isOfOther && others.size === MAX_OPEN_OTHER_ROLES)
      throw new ChunkError(
        `TEXT_MESSAGE_START: at most ${MAX_OPEN_OTHER_ROLES} messages of other roles may be open`,
      )
    if (isOfOther) return void others.add(id)
    collector.beginStep()
    open[prefix].add(id)
    collector.say({ type: `${KINDS[prefix]}-start`, id })
  }
  const mustBeOpen = (prefix: TextPrefix, type: string, id: string) => {
    if (open[prefix].has(id)) return
    throw new ChunkError(`${type}: no message ${shortenId(id)} is open`, {
      remedy: `Send ${prefix}_START first, with the same messageId`,
    })
  }
  return {
    take: (prefix, { type, messageId, role = 'assistant', delta }) => {
      const id = String(messageId)
      const isOfOther = prefix === 'TEXT_MESSAGE' && role !== 'assistant'
      if (type === `${prefix}_START`) return start(prefix, id, isOfOther)
      const isEnd = type === `${prefix}_END`
      if (prefix === 'TEXT_MESSAGE' && others.has(id)) return void (isEnd && others.delete(id))
      mustBeOpen(prefix, type, id)
      if (!isEnd) return collector.say({ type: `${KINDS[prefix]}-delta`, id, delta: String(delta) })
      open[prefix].delete(id)
      collector.sayLater({ type: `${KINDS[prefix]}-end`, id })
    },
    findOpen: () => {
      const [reasoning] = open.REASONING_MESSAGE
      const [text = reasoning] = [...open.TEXT_MESSAGE, ...others]
      if (text === undefined) return undefined
      return { id: text, end: text === reasoning ? 'REASONING_MESSAGE_END' : 'TEXT_MESSAGE_END' }
    },
  }
}
