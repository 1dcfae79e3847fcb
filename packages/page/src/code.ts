// A block of code: highlighted, with a button that copies it.
import { createContext, h } from 'preact'
import { useContext, useMemo, useState } from 'preact/hooks'
import { highlight } from './highlight.ts'

type Props = { readonly text: string; readonly language: string }

/** Whether the text around the code still grows. */
export const Growing = createContext(false)

/** The most characters that are coloured: code that grows is coloured again with each chunk. */
const LONGEST = { growing: 4_000, whole: 20_000 }

const SHOWN_MS = 1_500

export function Code({ text, language }: Props) {
  const longest = useContext(Growing) ? LONGEST.growing : LONGEST.whole
  const drawn = useMemo(() => highlight(text, language, longest), [text, language, longest])
  return h(
    'div',
    { class: 'code' },
    h('pre', null, h('code', null, drawn)),
    h(Copy, { text, what: 'the code' }),
  )
}

/** `what`: for readers who cannot see where the button is. */
export function Copy({ text, what }: { readonly text: string; readonly what: string }) {
  const [label, setLabel] = useState('Copy')
  const show = (word: string) => {
    setLabel(word)
    setTimeout(() => setLabel('Copy'), SHOWN_MS)
  }
  const copy = () =>
    void navigator.clipboard.writeText(text).then(
      () => show('Copied'),
      () => show('Not allowed'),
    )
  return h('button', { class: 'copy', 'aria-label': `${label}: ${what}`, onClick: copy }, label)
}
