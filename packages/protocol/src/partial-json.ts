// Computes the value of a JSON text that has not ended yet. It cuts the text to the longest beginning that can be closed, and
// closes that. An incomplete string, number or word counts as far as it goes. A field counts from the first character of its
// value.
import { JSON_LIMITS } from './json.ts'

const WORDS = ['true', 'false', 'null']
const WORD = /[^\s:,{}[\]"]+/y

/** Undefined if there is no value yet, or if it is nested too deep to be stored. */
export function partialJson(text: string): unknown {
  try {
    return JSON.parse(closed(text))
  } catch {
    return undefined
  }
}

/** Cuts the text where it can be closed, and closes it. */
function closed(text: string): string {
  const open: string[] = [] // the closing characters, innermost last
  let [at, end, tail, isKey] = [0, 0, '', false]
  const take = (token: Token) => {
    const isNothing = token.end === at
    at = token.at
    if (isKey || isNothing) return
    end = token.end
    tail = token.tail
  }
  while (at < text.length) {
    const char = text[at]!
    if (char === '"') take(stringAt(text, at))
    else if (char === '{' || char === '[') {
      open.push(char === '{' ? '}' : ']')
      if (open.length > JSON_LIMITS.depth) return ''
      isKey = char === '{'
      end = ++at
    } else if (char === '}' || char === ']') {
      open.pop()
      isKey = false
      end = ++at
    } else if (char === ':' || char === ',') {
      isKey = char === ',' && open.at(-1) === '}'
      at += 1
    } else if (char.trim() === '') at += 1
    else take(wordAt(text, at))
    if (open.length === 0 && end > 0) break
  }
  return text.slice(0, end) + tail + open.toReversed().join('')
}

/** A token read up to `at`. It counts up to `end`, with `tail` appended. */
type Token = { readonly at: number; readonly end: number; readonly tail: string }

function stringAt(text: string, from: number): Token {
  let at = from + 1
  while (at < text.length && text[at] !== '"') {
    const next = at + (text[at] !== '\\' ? 1 : text[at + 1] === 'u' ? 6 : 2)
    if (next > text.length) return { at: text.length, end: at, tail: '"' } // half an escape
    at = next
  }
  return at < text.length ? { at: at + 1, end: at + 1, tail: '' } : { at, end: at, tail: '"' }
}

function wordAt(text: string, from: number): Token {
  WORD.lastIndex = from
  const word = WORD.exec(text)![0]
  const at = from + word.length
  const whole = WORDS.find((one) => one.startsWith(word))
  if (whole) return { at, end: at, tail: whole.slice(word.length) }
  if (at < text.length) return { at, end: at, tail: '' }
  const end = from + word.split('').findLastIndex(isDigit) + 1 // a sign, a point or an exponent alone is not a number yet
  return { at, end, tail: '' }
}

function isDigit(char: string): boolean {
  return char >= '0' && char <= '9'
}
