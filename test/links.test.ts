// Every link between files of this repository leads to a file and, if it names one, to a heading of it.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { anchorsOf, relativeLinksOf, titleOf } from '../scripts/markdown.ts'
import { deadLinksOf } from './support/links.ts'

const ROOT = join(import.meta.dirname, '..')
const pages = new Map(
  globSync('**/*.md', { cwd: ROOT, exclude: ['**/node_modules', '**/dist'] }).map((path) => [
    path,
    readFileSync(join(ROOT, path), 'utf8'),
  ]),
)
const exists = (path: string) => existsSync(join(ROOT, path))

test('every link of a Markdown file has a target', () => {
  for (const path of ['README.md', 'bench/RESULTS.md', 'docs/glossary.md', 'packages/server/README.md'])
    assert.ok(pages.has(path), `${path} was found`)
  assert.deepEqual(deadLinksOf({ pages, exists }), [])
})

const OTHER =
  '# Other\n\n## Run it\n\n## Run it\n\n## `useChat`: what, and *why*?\n\n```sh\n# not a heading\n```\n'

for (const [what, link, fault] of [
  ['a link to a page', '[a](other.md)', undefined],
  ['a link to a heading of the same page', '[a](#page)', undefined],
  ['a link to the second heading of the same name', '[a](other.md#run-it-1)', undefined],
  ['a link to a heading with code and punctuation', '[a](other.md#usechat-what-and-why)', undefined],
  ['a link in code', '`[a](nowhere.md)`', undefined],
  ['a link in a fence', '```md\n[a](nowhere.md)\n```', undefined],
  ['a link to another site', '[a](https://example.com/x#y)', undefined],
  ['mutant: a link to a missing page', '[a](nowhere.md)', 'nowhere.md: no such file'],
  ['mutant: a link whose text is code', '[`a`](nowhere.md)', 'nowhere.md: no such file'],
  ['mutant: a link that breaks over lines', '[a\nb](nowhere.md)', 'nowhere.md: no such file'],
  ['mutant: a missing picture', '![a](nowhere.png)', 'nowhere.png: no such file'],
  ['mutant: a missing picture in HTML', '<img src="nowhere.png">', 'nowhere.png: no such file'],
  ['mutant: a missing reference', '[a]: nowhere.md', 'nowhere.md: no such file'],
  ['mutant: a missing heading', '[a](other.md#stop-it)', 'other.md#stop-it: no such heading'],
  ['mutant: a third heading', '[a](other.md#run-it-2)', 'other.md#run-it-2: no such heading'],
  ['mutant: a comment in a fence', '[a](other.md#not-a-heading)', 'other.md#not-a-heading: no such heading'],
  ['mutant: a heading of a source', '[a](source.ts#run-it)', 'source.ts#run-it: no such heading'],
  ['mutant: a link out of the repository', '[a](../../x.md)', '../../x.md: leaves the repository'],
] as const)
  test(`${what} is ${fault === undefined ? 'accepted' : 'found'}`, () => {
    const repository = new Map([
      ['docs/page.md', `# Page\n\n${link}\n`],
      ['docs/other.md', OTHER],
    ])
    assert.deepEqual(
      deadLinksOf({ pages: repository, exists: (path) => path === 'docs/source.ts' }),
      fault === undefined ? [] : [`docs/page.md: ${fault}`],
    )
  })

test('the title of a page is its first heading, as plain text', () => {
  assert.equal(titleOf('<!-- # No -->\n# `useChat` of *the* [AI SDK](x.md)\n'), 'useChat of the AI SDK')
})

test('anchors keep letters of all languages and double spaces of removed signs', () => {
  assert.deepEqual([...anchorsOf('# Ärger – a & b\n# snake_case\n')], ['ärger--a--b', 'snake_case'])
  assert.deepEqual(relativeLinksOf('[a](x.md "title") [b](<y.md>) <https://z>'), ['x.md', 'y.md'])
})
