// Colours code, as elements. Code stays plain text if it is very long, or if its language is not known here. Code is hostile input:
// where it nests too deep, only its text is shown.
import bash from 'highlight.js/lib/languages/bash'
import css from 'highlight.js/lib/languages/css'
import diff from 'highlight.js/lib/languages/diff'
import go from 'highlight.js/lib/languages/go'
import java from 'highlight.js/lib/languages/java'
import json from 'highlight.js/lib/languages/json'
import python from 'highlight.js/lib/languages/python'
import rust from 'highlight.js/lib/languages/rust'
import sql from 'highlight.js/lib/languages/sql'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import { createLowlight } from 'lowlight'
import { h, type ComponentChild, type ComponentChildren } from 'preact'

const DEEPEST = 40
const grammars = createLowlight({ bash, css, diff, go, java, json, python, rust, sql, typescript, xml, yaml })
grammars.registerAlias({ typescript: ['js', 'javascript', 'jsx', 'ts', 'tsx', 'mjs', 'cjs'] })

type Tree = ReturnType<typeof grammars.highlight>
type Node = Tree['children'][number]

export function highlight(text: string, language: string, longest: number): ComponentChildren {
  if (text.length > longest || !grammars.registered(language)) return text
  try {
    return grammars.highlight(language, text).children.map((node) => draw(node, 0))
  } catch {
    return text // the grammar has given up
  }
}

function draw(node: Node, depth: number): ComponentChild {
  if (node.type === 'text') return node.value
  if (node.type !== 'element') return null
  if (depth === DEEPEST) return textIn(node)
  const names = node.properties['className']
  const inner = node.children.map((child) => draw(child, depth + 1))
  return h('span', { class: Array.isArray(names) ? names.join(' ') : '' }, inner)
}

/** Without recursion: the nesting may be thousands of levels deep. */
function textIn(root: Node): string {
  const [open, text]: [Node[], string[]] = [[root], []]
  for (let node = open.pop(); node; node = open.pop()) {
    if (node.type === 'text') text.push(node.value)
    if (node.type === 'element') open.push(...node.children.toReversed())
  }
  return text.join('')
}
