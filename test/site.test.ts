// The documentation site contains every page of docs/ once, and its landing page says what the README says.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { relativeLinksOf } from '../scripts/markdown.ts'
import { targetOf } from '../site/links.ts'
import { addressOf, GROUPS, LANDING, PAGES, REPOSITORY, ROOT } from '../site/map.ts'

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

test('every page of docs/ is in exactly one group (else: site/map.ts)', () => {
  const docs = globSync('docs/**/*.md', { cwd: ROOT })
  assert.ok(docs.length > 70, 'the pages were found')
  assert.deepEqual(
    docs.filter((path) => !PAGES.includes(path)),
    [],
    'in no group',
  )
  assert.deepEqual(
    PAGES.filter((path, index) => PAGES.indexOf(path) !== index),
    [],
    'twice',
  )
})

test('every page of the site is a file of the repository, and has an address of its own', () => {
  assert.deepEqual(
    PAGES.filter((path) => globSync(path, { cwd: ROOT }).length === 0),
    [],
  )
  const addresses = [LANDING, ...PAGES].map(addressOf)
  assert.equal(new Set(addresses).size, addresses.length)
  assert.deepEqual(
    GROUPS.map(({ name }) => name),
    ['Start', 'Build', 'Run', 'Understand', 'Reference'],
  )
})

for (const [from, link, target] of [
  ['docs/guides/tasks.md', 'machines.md', '/guides/machines.md'],
  ['docs/guides/tasks.md', '../glossary.md#work', '/glossary.md#work'],
  ['docs/guides/tasks.md', '../../ARCHITECTURE.md#rooms', '/architecture.md#rooms'],
  ['docs/guides/tasks.md', '../../bench/RESULTS.md', '/bench/results.md'],
  ['docs/guides/tasks.md', '../compare/README.md', '/compare/index.md'],
  ['docs/guides/tasks.md', '../../README.md#try-it', '/overview.md#try-it'],
  ['docs/guides/tasks.md', '#an-app', '#an-app'],
  ['docs/guides/tasks.md', 'https://example.com/a.md', 'https://example.com/a.md'],
  ['docs/guides/tasks.md', '../../examples/queue/app.ts', `${REPOSITORY}/blob/main/examples/queue/app.ts`],
  ['README.md', 'LICENSE', `${REPOSITORY}/blob/main/LICENSE`],
  ['README.md', 'examples/chat', `${REPOSITORY}/tree/main/examples/chat`],
  ['README.md', 'docs/decisions', '/decisions/0001-postgresql-is-the-log.md'],
  ['examples/chat/README.md', '../../docs/guides/client.md', '/guides/client.md'],
] as const)
  test(`a link of ${from} to ${link} leads to ${target}`, () => {
    assert.equal(targetOf(from, link), target)
  })

test('every link of every page leads to a page of the site or to the repository', () => {
  const targets = [LANDING, ...PAGES].flatMap((from) =>
    relativeLinksOf(read(from)).map((link) => targetOf(from, link)),
  )
  assert.ok(targets.length > 400, 'the links were found')
  assert.deepEqual(
    targets.filter((target) => !/^(?:#|\/|https:)/.test(target)),
    [],
  )
})

test('the landing page says what the README says', () => {
  const readme = read('README.md').replaceAll(/\s+/g, ' ')
  const landing = read(LANDING)
  const sentence = /^# Fleetline\n\n(.+)$/m.exec(landing)![1]!
  const commands = /```sh\n([^]*?)```/.exec(landing)![1]!.trim().split('\n')
  assert.ok(readme.includes(sentence), sentence)
  for (const command of commands) assert.ok(readme.includes(command), command)
})

test('the site links the repository that the manifest of fleetline names', () => {
  const { repository } = JSON.parse(read('packages/server/package.json')) as {
    readonly repository?: { readonly url: string }
  }
  if (repository) assert.equal(repository.url.replace(/^git\+/, '').replace(/\.git$/, ''), REPOSITORY)
})
