// The beginning of a text that an agent sent, as a terminal may show it: one line of printable characters. Pure.
const LENGTH = 120
/** A text with more characters than this that are no UTF-8 is shown to nobody. */
const MOST_BROKEN = 0.05
const SECRETS = /whsec_[\w+/=-]+/g

/** Undefined: there is nothing to show. */
export function excerptOf(text: string): string | undefined {
  const line = text.replaceAll(/[\p{C}\p{Z}]+/gu, ' ').trim()
  const characters = Array.from(line.replaceAll(SECRETS, 'whsec_…'))
  const broken = characters.filter((character) => character === '\uFFFD').length
  if (characters.length === 0 || broken > characters.length * MOST_BROKEN) return undefined
  const shown = characters.slice(0, LENGTH).join('')
  return characters.length > LENGTH ? `${shown}…` : shown
}
