// The rights that `fleetline doctor` asks for are those that the statements in the sources use.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FUNCTIONS, TABLE_RIGHTS } from '../../src/safety/rights.ts'

const root = join(import.meta.dirname, '../..')
const read = (pattern: string, exclude: readonly string[] = []) =>
  globSync(pattern, { cwd: root })
    .filter((path) => !exclude.includes(path))
    .map((path) => readFileSync(join(root, path), 'utf8'))
    .join('\n')
// Migrations run as the owner of the schema.
const sources = read('src/**/*.ts', ['src/store/migrate.ts'])
const migrations = read('migrations/*.sql')

const namesIn = (text: string, pattern: RegExp) => Array.from(text.matchAll(pattern), ([, name]) => name!)
const USES: Readonly<Record<string, RegExp>> = {
  insert: /insert into fleetline\.(\w+)/g,
  // A conflict with `do update` needs the right to update, too.
  update:
    /(?:(?<!for )update fleetline\.|insert into fleetline\.(?=(?:(?!insert into)[^`])*?do update))(\w+)/g,
  delete: /delete from fleetline\.(\w+)/g,
}

test('doctor asks for the rights on tables that the statements of a pod use', () => {
  const created = new Set(namesIn(migrations, /create (?:unlogged )?table fleetline\.(\w+)/g))
  assert.deepEqual(Object.keys(TABLE_RIGHTS), [...created, 'migrations'].toSorted())
  const used = Object.entries(USES).map(
    ([right, pattern]) => [right, new Set(namesIn(sources, pattern))] as const,
  )
  for (const [table, rights] of Object.entries(TABLE_RIGHTS)) {
    const needed = used.filter(([, tables]) => tables.has(table)).map(([right]) => right)
    assert.equal(rights, ['select', ...needed].join(' '), table)
  }
})

test('doctor asks for the rights on functions that the statements of a pod call', () => {
  const created = new Set(namesIn(migrations, /create (?:or replace )?function fleetline\.(\w+)/g))
  const called = new Set(namesIn(sources, /fleetline\.(\w+)\(/g).filter((name) => created.has(name)))
  assert.deepEqual(FUNCTIONS.toSorted(), [...called].toSorted())
})
