// The Markdown of an agent becomes elements. Its HTML never does: it stays text.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isValidElement, type ComponentChildren, type VNode } from 'preact'
import { highlight } from '../../src/highlight.ts'
import { markdown } from '../../src/markdown.ts'

type Props = { children?: ComponentChildren; href?: string; language?: string; text?: string }

/** Returns the elements as text, for example `p[text strong[more]]`. */
function drawn(node: ComponentChildren): string {
  if (Array.isArray(node))
    return node
      .map(drawn)
      .filter((text) => text !== '')
      .join(' ')
  if (!isValidElement(node)) return node === null || node === undefined ? '' : (node as string).trim()
  const { type, props } = node as VNode<Props>
  if (typeof type === 'function') return `${type.name}(${props.language})[${props.text}]`
  const href = props.href === undefined ? '' : `(${props.href})`
  return `${type}${href}[${drawn(props.children)}]`
}

for (const [written, expected] of [
  ['You said: **bold** and `code`', 'p[You said: strong[bold] and code[code]]'],
  ['# Title\n\nmore', 'h3[Title] p[more]'],
  ['3. three\n4. *four*', 'ol[li[three] li[em[four]]]'],
  ['- [x] done\n- [ ] open', 'ul[li[☑ done] li[☐ open]]'],
  ['| a | b |\n|---|---|\n| 1 | 2 |', 'table[thead[tr[th[a] th[b]]] tbody[tr[td[1] td[2]]]]'],
  ['```sh -x\nkill -9 1\n```', 'Code(sh)[kill -9 1]'],
  ['> quoted\n\n---', 'blockquote[p[quoted]] hr[]'],
  ['[web](https://example.com/a)', 'p[a(https://example.com/a)[web]]'],
  ['![image](https://example.com/a.png)', 'p[a(https://example.com/a.png)[image]]'],
] as const) {
  test(`markdown: ${JSON.stringify(written)}`, () => assert.equal(drawn(markdown(written)), expected))
}

for (const hostile of [
  '<img src=x onerror=alert(1)>',
  '<script>alert(1)</script>',
  'a <b onclick="alert(1)">b</b> c',
  '[x](javascript:alert(1))',
  '![x](data:text/html,<script>)',
  '<javascript:alert(1)>',
]) {
  test(`hostile: ${hostile} becomes text without a link`, () => {
    const found = drawn(markdown(hostile))
    assert.doesNotMatch(found, /\b(img|script|b|a)(\(|\[)/)
  })
}

function depthOf(node: ComponentChildren): number {
  if (Array.isArray(node)) return Math.max(0, ...node.map(depthOf))
  return isValidElement(node)
    ? 1 + depthOf((node as VNode<{ children?: ComponentChildren }>).props.children)
    : 0
}

test('text that is nested too deeply is shown as it was written', () => {
  for (const deep of ['> '.repeat(1_600), `${'- '.repeat(800)}x`, '*a **b '.repeat(400)]) {
    const node = markdown(`hi\n\n${deep}`)
    assert.ok(depthOf(node) < 100, `${depthOf(node)} levels`)
    assert.match(drawn(node), /hi/)
  }
  const endless = '> '.repeat(8_000)
  assert.equal(markdown(endless), endless)
})

test('known code is coloured word by word, and other or longer code stays as it is', () => {
  assert.equal(drawn(highlight('const a = 1', 'ts', 100)), 'span[const] a = span[1]')
  assert.equal(drawn(highlight('const a = 1', 'ts', 10)), 'const a = 1')
  assert.equal(drawn(highlight('"<script>"', 'json', 100)), 'span["<script>"]')
  for (const language of ['nosuch', '__proto__', 'constructor', ''])
    assert.equal(drawn(highlight('<b>', language, 100)), '<b>')
})

test('code that nests thousands of levels deep is shown whole, and only its first levels are coloured', () => {
  const deep = '`${'.repeat(5_000)
  const node = highlight(deep, 'ts', 20_000)
  assert.ok(depthOf(node) < 100, `${depthOf(node)} levels`)
  assert.equal(drawn(node).replaceAll(/span\[|\]| /g, ''), deep)
})
