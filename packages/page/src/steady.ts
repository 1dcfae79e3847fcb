// Keeps a reply on screen when a new attempt starts it again, until that attempt says more or something else. Pure.
import type { Message } from '@fleetline/client'

export function steady(shown: Message | undefined, said: Message | undefined): Message | undefined {
  if (!shown || !said || shown.turn !== said.turn || said.delivery !== 'open') return said
  return isBeginning(said, shown) ? { ...said, parts: shown.parts } : said
}

/** Whether the first message is a beginning of the second. */
function isBeginning({ parts }: Message, of: Message): boolean {
  return parts.every((part, index) => {
    const other = of.parts[index]
    const isLast = index === parts.length - 1
    if (other?.type !== part.type) return false
    const [text, whole] = [part['text'], other['text']]
    if (typeof text !== 'string' || typeof whole !== 'string')
      return JSON.stringify(part) === JSON.stringify(other)
    return isLast ? whole.startsWith(text) : whole === text
  })
}
