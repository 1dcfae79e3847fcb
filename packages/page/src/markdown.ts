// Markdown as elements. Nothing becomes HTML: what is no element here is shown as it was written, and a link leads to the web
// or nowhere.
import { lexer, type Token, type Tokens } from 'marked'
import { h, type ComponentChild, type ComponentChildren } from 'preact'

export function markdown(text: string): ComponentChildren {
  try {
    return blocks(lexer(text))
  } catch {
    return text // nested deeper than anything that means to be read
  }
}

type Draw = (token: never) => ComponentChild

const DRAW: Readonly<Record<string, Draw>> = {
  hr: () => h('hr', null),
  br: () => h('br', null),
  heading: ({ depth, tokens }: Tokens.Heading) => h(`h${Math.min(depth + 2, 6)}`, null, blocks(tokens)),
  paragraph: ({ tokens }: Tokens.Paragraph) => h('p', null, blocks(tokens)),
  blockquote: ({ tokens }: Tokens.Blockquote) => h('blockquote', null, blocks(tokens)),
  code: ({ text }: Tokens.Code) => h('pre', null, h('code', null, text)),
  list: ({ ordered, start, items }: Tokens.List) =>
    h(ordered ? 'ol' : 'ul', start === '' ? null : { start }, blocks(items)),
  list_item: ({ tokens, task, checked }: Tokens.ListItem) =>
    h('li', null, task ? (checked ? '☑ ' : '☐ ') : null, blocks(tokens)),
  table: ({ header, rows }: Tokens.Table) =>
    h(
      'table',
      null,
      h('thead', null, rowOf('th', header)),
      h(
        'tbody',
        null,
        rows.map((row) => rowOf('td', row)),
      ),
    ),
  strong: ({ tokens }: Tokens.Strong) => h('strong', null, blocks(tokens)),
  em: ({ tokens }: Tokens.Em) => h('em', null, blocks(tokens)),
  del: ({ tokens }: Tokens.Del) => h('del', null, blocks(tokens)),
  codespan: ({ text }: Tokens.Codespan) => h('code', null, text),
  escape: ({ text }: Tokens.Escape) => text,
  link: ({ href, tokens }: Tokens.Link) => link(href, blocks(tokens)),
  image: ({ href, text }: Tokens.Image) => link(href, text || href),
  text: (token: Tokens.Text) => (token.tokens ? blocks(token.tokens) : token.text),
}

const UNSEEN = new Set(['space', 'def', 'checkbox'])

function blocks(tokens: readonly Token[]): ComponentChild[] {
  return tokens.map((token) => {
    const draw = DRAW[token.type] as ((token: Token) => ComponentChild) | undefined
    if (draw) return draw(token)
    return UNSEEN.has(token.type) ? null : token.raw
  })
}

function rowOf(cell: 'th' | 'td', cells: readonly Tokens.TableCell[]): ComponentChild {
  return h(
    'tr',
    null,
    cells.map(({ tokens }) => h(cell, null, blocks(tokens))),
  )
}

function link(href: string, children: ComponentChildren): ComponentChild {
  const isWeb = URL.canParse(href) && /^(https?|mailto):$/.test(new URL(href).protocol)
  return isWeb ? h('a', { href, target: '_blank', rel: 'noreferrer' }, children) : h('span', null, children)
}
