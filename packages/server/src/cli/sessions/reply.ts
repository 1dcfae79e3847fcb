// The reply to one message while it comes, told frame by frame: what is printed of it, and how it ends. Words are printed as
// they are said, each once; an attempt that begins anew says again what is printed, or something else.
//
//   what was printed          what was said by now            is printed
//   is its beginning                                          the rest
//   begins with it            (a later attempt catches up)    nothing, unless that is the end of it
//   differs                   (other words, words taken back) all of it, on a new line, with a note
// Of parts that are open at once, words are printed up to the end of the first; the others come when it is done.
//
//   a turn that                            is
//   begins behind the message              too late: how the one that was to answer it ended was not told
//   reads the message, and has ended       the end: the item that it wrote, nothing, its failure, or that it was stopped
//   reads the message, and runs            who says the words
//   ends before the message, or has not    of no interest: the next one may
//   read anything yet
import {
  createAssembler,
  type Assembler,
  type Frame,
  type Item,
  type Part,
  type Turn,
} from '@fleetline/protocol'
import { Rejected } from '../../errors.ts'
import { phraseOf } from './frames.ts'

export type ReplyEnd =
  | { readonly type: 'answered'; readonly item: Item }
  | { readonly type: 'silent' }
  /** `item`: what was said by then, if anything. */
  | { readonly type: 'failed'; readonly turn: Turn; readonly item: Item | undefined }
  | { readonly type: 'stopped'; readonly item: Item | undefined }
  | { readonly type: 'untold' }

export type ReplyPrinter = {
  readonly take: (frame: Frame) => ReplyEnd | undefined
  /** The live turn, if it was told and answers the message. */
  readonly turn: () => Turn | undefined
  /** Whether it is live, and answers the message, or will read it. */
  readonly isOf: (turn: Turn) => boolean
  /** Prints what is left of it. */
  readonly finish: (item: Item) => void
  /** There is nothing left of it. */
  readonly closeLine: () => void
}

type Paper = { readonly text: (piece: string) => void; readonly note: (text: string) => void }
type Said = { readonly turn: string; readonly attempt: number; readonly message: Assembler }

/** Of the message at this seq. */
export function createReply(seq: number, paper: Paper): ReplyPrinter {
  const [items, print] = [new Map<string, Item>(), createPrinter(paper)]
  let [live, said, noted]: [Turn | undefined, Said | undefined, string] = [undefined, undefined, '']

  const isOf = ({ answers: { to }, endedAt }: Turn) => endedAt === null && (to === null || to >= seq)
  const stand = (turn: Turn): ReplyEnd | undefined => {
    const { from, to } = turn.answers
    if (from > seq) return { type: 'untold' }
    const phrase = phraseOf(turn)
    if (phrase !== noted && turn.endedAt === null) paper.note(phrase)
    noted = phrase
    live = isOf(turn) ? turn : undefined
    if (to === null || to < seq) return undefined
    const item = items.get(turn.message)
    if (turn.state === 'failed') return { type: 'failed', turn, item }
    if (turn.state === 'stopped') return { type: 'stopped', item }
    if (turn.state === 'done') return item ? { type: 'answered', item } : { type: 'silent' }
    return undefined
  }
  const take = (frame: Frame): ReplyEnd | undefined => {
    switch (frame.type) {
      case 'messages':
        for (const item of frame.items) if (item.turn !== undefined) items.set(item.id, item)
        return undefined
      case 'turn':
        return stand(frame.turn)
      case 'chunks': {
        const { turn, attempt, index, chunks } = frame
        if (turn !== live?.id) return undefined
        if (!said || index === 0 || said.turn !== turn || said.attempt !== attempt)
          said = { turn, attempt, message: createAssembler('') }
        chunks.forEach(said.message.push)
        print(textSoFar(said.message.message().parts).replace(/[\uD800-\uDBFF]$/, ''), false)
        return undefined
      }
      case 'gap':
        throw new Rejected('gone', 'The session has another history now: the message may not be in it')
    }
  }
  const finish = ({ parts, status }: Item) => {
    const text = textOf(parts)
    if (status !== undefined) {
      print(text, false) // some that is printed may have been said too late to be stored
      return print.closeLine()
    }
    print(text.endsWith('\n') || text === '' ? text : `${text}\n`, true)
    if (text === '') paper.note(`The reply has no text: ${parts.map(({ type }) => `[${type}]`).join(' ')}`)
  }
  return { take, finish, closeLine: print.closeLine, turn: () => live, isOf }
}

function createPrinter({ text: write, note }: Paper) {
  let printed = ''
  const print = (text: string, isEnd: boolean): void => {
    if (printed.startsWith(text) && (!isEnd || printed === text)) return
    if (text.startsWith(printed)) write(text.slice(printed.length))
    else {
      note('It says something else now. Its words from the beginning:')
      write(`${printed.endsWith('\n') ? '' : '\n'}${text}`)
    }
    printed = text
  }
  return Object.assign(print, {
    closeLine: () => {
      if (printed !== '' && !printed.endsWith('\n')) write('\n')
    },
  })
}

/** What will not change by what the open parts say next. */
function textSoFar(parts: readonly Part[]): string {
  const open = parts.findIndex(({ type, state }) => type === 'text' && state !== 'done')
  return textOf(open < 0 ? parts : parts.slice(0, open + 1))
}

/** What it says to people; its other parts are for programs. */
function textOf(parts: readonly Part[]): string {
  return parts
    .filter(({ type }) => type === 'text')
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('\n')
}
