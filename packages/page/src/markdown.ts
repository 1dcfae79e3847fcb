// Renders Markdown as elements. Nothing becomes HTML: syntax without an element here is shown as it was written. A link leads to
// the web or nowhere.
import { lexer, type Token, type Tokens } from 'marked'
import { h, type ComponentChild, type ComponentChildren } from 'preact'
import { Code } from './code.ts'

export function markdown(text: string): ComponentChildren {
  try {
    return blocks(lexer(text), 0)
  } catch {
    return text // nested deeper than the lexer can go
  }
}

type Inner = (tokens: readonly Token[]) => ComponentChild[]
type Draw = (token: never, inner: Inner) => ComponentChild

const DEEPEST = 40 // no readable text is nested deeper
const UNSEEN = new Set(['space', 'def', 'checkbox'])
const DRAW: Readonly<Record<string, Draw>> = {
  hr: () => h('hr', null),
  br: () => h('br', null),
  heading: ({ depth, tokens }: Tokens.Heading, inner) => h(`h${Math.min(depth + 2, 6)}`, null, inner(tokens)),
  paragraph: ({ tokens }: Tokens.Paragraph, inner) => h('p', null, inner(tokens)),
  blockquote: ({ tokens }: Tokens.Blockquote, inner) => h('blockquote', null, inner(tokens)),
  code: ({ text, lang }: Tokens.Code) => h(Code, { text, language: lang?.split(' ')[0] ?? '' }),
  list: ({ ordered, start, items }: Tokens.List, inner) =>
    h(ordered ? 'ol' : 'ul', start === '' ? null : { start }, inner(items)),
  list_item: ({ tokens, task, checked }: Tokens.ListItem, inner) =>
    h('li', null, task ? (checked ? '☑ ' : '☐ ') : null, inner(tokens)),
  table: ({ header, rows }: Tokens.Table, inner) =>
    h('table', null, [
      h('thead', null, rowOf('th', header, inner)),
      h(
        'tbody',
        null,
        rows.map((row) => rowOf('td', row, inner)),
      ),
    ]),
  strong: ({ tokens }: Tokens.Strong, inner) => h('strong', null, inner(tokens)),
  em: ({ tokens }: Tokens.Em, inner) => h('em', null, inner(tokens)),
  del: ({ tokens }: Tokens.Del, inner) => h('del', null, inner(tokens)),
  codespan: ({ text }: Tokens.Codespan) => h('code', null, text),
  escape: ({ text }: Tokens.Escape) => text,
  link: ({ href, tokens }: Tokens.Link, inner) => link(href, inner(tokens)),
  image: ({ href, text }: Tokens.Image) => link(href, text || href),
  text: (token: Tokens.Text, inner) => (token.tokens ? inner(token.tokens) : token.text),
}

function blocks(tokens: readonly Token[], depth: number): ComponentChild[] {
  const inner: Inner = (tokens) => blocks(tokens, depth + 1)
  return tokens.map((token) => {
    const draw = depth < DEEPEST ? (DRAW[token.type] as Draw | undefined) : undefined
    if (draw) return draw(token as never, inner)
    return UNSEEN.has(token.type) ? null : token.raw
  })
}

function rowOf(cell: 'th' | 'td', cells: readonly Tokens.TableCell[], inner: Inner): ComponentChild {
  return h(
    'tr',
    null,
    cells.map(({ tokens }) => h(cell, null, inner(tokens))),
  )
}

function link(href: string, children: ComponentChildren): ComponentChild {
  const isWeb = URL.canParse(href) && /^(https?|mailto):$/.test(new URL(href).protocol)
  return isWeb ? h('a', { href, target: '_blank', rel: 'noreferrer' }, children) : h('span', null, children)
}
