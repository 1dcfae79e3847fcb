// docs/invariants.md defines every code that a comment, a test or a page names, and each has a test that carries it.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { brokenCodes } from './support/invariants.ts'

const root = join(import.meta.dirname, '../../..')
const read = (patterns: readonly string[]) =>
  new Map(
    globSync(patterns, { cwd: root, exclude: ['**/node_modules/**'] }).map((path) => [
      path,
      readFileSync(join(root, path), 'utf8'),
    ]),
  )
const page = readFileSync(join(root, 'docs/invariants.md'), 'utf8')
const texts = read([
  'packages/*/src/**/*.{ts,md}',
  'packages/*/test/**/*.ts',
  'packages/server/migrations/*.sql',
  'test/**/*.ts',
  'docs/**/*.md',
  '*.md',
])
const tests = new Map(
  [...read(['packages/{server,client}/test/**/*.test.ts'])].map(
    ([path, text]) => [nameOf(path), text] as const,
  ),
)

function nameOf(path: string): string {
  return path
    .replace(/\.test\.ts$/, '')
    .replace('packages/server/test/', '')
    .replace('packages/client/test/', 'client/')
}

test('every code is defined, and carried by the tests that its row names', () => {
  assert.ok(texts.size > 300 && tests.size > 50, 'the sources were found')
  assert.deepEqual(brokenCodes(page, texts, tests), [])
})

const [NEW, OTHER] = ['77', '78'].map((number) => `Q${number}`) // written so, they do not count as used here

test('mutant: a code that is used and not defined is found', () => {
  const mutant = new Map([['src/a.ts', `// ${NEW}: nothing`]])
  assert.deepEqual(brokenCodes(page, mutant, tests), [`src/a.ts: ${NEW} is not defined`])
})

test('mutant: a code that is defined without a test, or with one that does not carry it, is found', () => {
  const without = `${page}\n| ${NEW} | Nothing happens. |  |\n| ${OTHER} | Nothing else. | \`unit/lib\` |\n`
  assert.deepEqual(brokenCodes(without, new Map(), tests), [
    `${NEW} names no test`,
    `${OTHER}: no title in unit/lib carries it`,
  ])
})
