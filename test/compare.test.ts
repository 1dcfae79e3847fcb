// Every statement about another system in docs/compare names its source.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { relativeLinksOf } from '../scripts/markdown.ts'
import { faultsOf } from './support/comparison.ts'

const FOLDER = join(import.meta.dirname, '../docs/compare')
const OVERVIEW = join(FOLDER, 'README.md')
const files = globSync('*.md', { cwd: FOLDER }).map((name) => join(FOLDER, name))
const pages = files.filter((file) => file !== OVERVIEW)
const read = (file: string) => readFileSync(file, 'utf8')

for (const file of pages)
  test(`${file.slice(FOLDER.length + 1)} says when to choose whom, and names a source for each statement about others`, () => {
    assert.deepEqual(faultsOf(read(file)), [])
  })

test('the overview links every page, and says when not to use Fleetline', () => {
  const linked = new Set(
    relativeLinksOf(read(OVERVIEW)).map((target) => resolve(FOLDER, target.split('#')[0]!)),
  )
  assert.ok(pages.length > 0, 'the pages were found')
  assert.deepEqual(
    pages.filter((file) => !linked.has(file)),
    [],
  )
  assert.match(read(OVERVIEW), /^## When not to use Fleetline$/m)
})

const GOOD = `# Fleetline and Other

## Choose Other when

- You need it [1].

## Choose Fleetline when

- You need this.

## Side by side

| | Other | Fleetline |
|---|---|---|
| stores | one [2] | [another](../guides/tasks.md) |

## Sources

1. [A page](https://example.com/a), Other docs
2. [B page](https://example.com/b), Other docs
`

test('a page that keeps the rules has no faults', () => {
  assert.deepEqual(faultsOf(GOOD), [])
})

for (const [what, from, to, fault] of [
  ['a reason without a source', 'need it [1].', 'need it.', 'Choose Other when: no source'],
  ['a cell without a source', 'one [2]', 'one', 'Side by side: no source'],
  ['a link instead of a source', 'one [2]', 'one [2](b.md)', 'Side by side: no source'],
  ['a reference without a source', 'one [2]', 'one [2][3]', '[3] is not a source'],
  ['a source that is not used', 'need it [1]', 'need it [2]', 'source 1 is not used'],
  ['a source without https', 'https://example.com/a', 'http://example.com/a', 'source 1 has no https URL'],
  ['sources out of order', '2. [B page]', '3. [B page]', 'source 3 is out of order'],
  ['a page that has no word for others', 'Choose Other when', 'Other', 'there is no section Choose … when'],
  [
    'a page that has no word for Fleetline',
    'Choose Fleetline when',
    'Fleetline',
    'there is no section Choose Fleetline',
  ],
  ['a page without sources', '## Sources', '## Links', 'there is no section Sources'],
] as const)
  test(`mutant: ${what} is found`, () => {
    const faults = faultsOf(GOOD.replace(from, to))
    assert.ok(
      faults.some((text) => text.startsWith(fault)),
      faults.join('\n'),
    )
  })
