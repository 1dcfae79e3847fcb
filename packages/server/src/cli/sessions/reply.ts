// Prints the reply to one message while it arrives, frame by frame, and says how it ended. Words are printed as they arrive,
// each once. A new attempt starts again: it says the same words or others.
//
//   the reply so far                                      is printed
//   continues the printed text                            the rest
//   is a beginning of the printed text                    nothing; if the reply ends there, as in the next row
//   (a later attempt catches up)
//   differs (other words, or words taken back)            all of it, on a new line, with a note
// If several parts are open at once, text is printed up to the end of the first; the others follow when it is done.
//
//   a turn that                            means
//   begins after the message               too late: the end of the turn that was to answer it was not received
//   reads the message, and has ended       the end: the item that it wrote, nothing, its failure, or that it was stopped
//   reads the message, and runs            its words are printed
//   ends before the message, or has not    nothing: the next turn may answer it
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
import { phraseOf } from '../frames.ts'

export type ReplyEnd =
  | { readonly type: 'answered'; readonly item: Item }
  | { readonly type: 'silent' }
  /** `item` is the part of the reply that was stored, if any. */
  | { readonly type: 'failed'; readonly turn: Turn; readonly item: Item | undefined }
  | { readonly type: 'stopped'; readonly item: Item | undefined }
  | { readonly type: 'untold' }

export type ReplyPrinter = {
  readonly take: (frame: Frame) => ReplyEnd | undefined
  /** The live turn, if it is known and answers the message. */
  readonly turn: () => Turn | undefined
  /** Whether the turn is live and answers the message, or will read it. */
  readonly isOf: (turn: Turn) => boolean
  /** Prints the rest of the reply. */
  readonly finish: (item: Item) => void
  /** Ends the printed line; nothing more follows. */
  readonly closeLine: () => void
}

type Paper = { readonly text: (piece: string) => void; readonly note: (text: string) => void }
type Said = { readonly turn: string; readonly attempt: number; readonly message: Assembler }

/** For the reply to the message at this seq. */
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
      case 'erased':
        return undefined
      case 'gap':
        throw new Rejected(
          'stale',
          'PostgreSQL has returned to an earlier state, after a restore or a failover. Your message may be lost: look with `fleetline sessions tail`.',
        )
    }
  }
  const finish = ({ parts, status }: Item) => {
    const text = textOf(parts)
    if (status !== undefined) {
      print(text, false) // some printed words may have come too late to be stored
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

/** The text that later words of the open parts cannot change. */
function textSoFar(parts: readonly Part[]): string {
  const open = parts.findIndex(({ type, state }) => type === 'text' && state !== 'done')
  return textOf(open < 0 ? parts : parts.slice(0, open + 1))
}

/** The text for people; the other parts are for programs. */
function textOf(parts: readonly Part[]): string {
  return parts
    .filter(({ type }) => type === 'text')
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('\n')
}
