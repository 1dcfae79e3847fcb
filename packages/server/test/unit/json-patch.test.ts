// JSON Patch, beside the library that AG-UI's own client applies patches with.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import jsonpatch from 'fast-json-patch'
import { applyPatch as patched, PATCH_LIMITS, PatchError } from '../../src/ag-ui/json-patch.ts'

const applyPatch = (document: unknown, patch: Parameters<typeof patched>[1]) =>
  patched(document, patch).document

const refused = (document: unknown, patch: readonly object[]) =>
  assert.throws(() => applyPatch(document, patch as never), PatchError)

test('a patch applies as a whole or not at all, and leaves its document as it was', () => {
  const document = { a: [1, 2], b: { c: 3 } }
  const before = structuredClone(document)
  assert.deepEqual(
    applyPatch(document, [
      { op: 'add', path: '/a/-', value: 3 },
      { op: 'move', from: '/b/c', path: '/d' },
    ]),
    {
      a: [1, 2, 3],
      b: {},
      d: 3,
    },
  )
  refused(document, [
    { op: 'remove', path: '/a/0' },
    { op: 'test', path: '/b/c', value: 4 },
  ])
  assert.deepEqual(document, before)
})

test('a patch that RFC 6902 does not allow is refused', () => {
  refused({ a: [1] }, [{ op: 'add', path: '/a/3', value: 1 }])
  refused({ a: [1] }, [{ op: 'add', path: '/b/c', value: 1 }])
  refused({ a: { b: 1 } }, [{ op: 'move', from: '/a', path: '/a/b' }])
  refused({}, [{ op: 'replace', path: '/a', value: 1 }])
  refused({}, [{ op: 'remove', path: '/a' }])
  refused({}, [{ op: 'add', path: 'a', value: 1 }])
  refused({}, [{ op: 'add', path: '/~2', value: 1 }])
  refused({}, [{ op: 'add', path: '/a' }])
})

test('a hostile patch costs little and reaches no prototype', () => {
  const doubling = Array.from({ length: 60 }, (_, n) => ({ op: 'copy', from: '', path: `/${n}` }))
  refused({ a: 'x'.repeat(100) }, doubling)
  refused(
    {},
    Array.from({ length: PATCH_LIMITS.operations + 1 }, () => ({ op: 'add', path: '/a', value: 1 })),
  )
  refused({}, [{ op: 'add', path: '/a', value: 'x'.repeat(PATCH_LIMITS.characters) }])
  refused({}, [{ op: 'add', path: '/__proto__/polluted', value: true }])
  refused({}, [{ op: 'add', path: '/constructor/prototype/polluted', value: true }])
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
})

const value = fc.constantFrom<unknown>(1, 'x', [1, 2], { c: 3 }, null).map(structuredClone)
const path = fc.constantFrom('/a', '/a/0', '/a/1', '/a/-', '/b', '/b/c', '/b/d~1e', '/b/m~0n')
/** fast-json-patch lets a move or a copy leave a gap in an array, which RFC 6902 forbids. */
const isLoose = ({ op, path: to }: { readonly op: string; readonly path: string }) =>
  (op === 'move' || op === 'copy') && /^\/a\/\d$/.test(to)
const patches = fc.array(
  fc
    .record(
      { op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy', 'test'), path, from: path, value },
      { noNullPrototype: true },
    )
    .filter((one) => !isLoose(one)),
  { maxLength: 5 },
)

test('a patch gives what fast-json-patch makes of it', () => {
  let applied = 0
  fc.assert(
    fc.property(patches, (patch) => {
      const document = { a: [1, { x: 1 }], b: { c: [3], 'd/e': 4 } }
      let theirs: unknown
      try {
        theirs = jsonpatch.applyPatch(
          structuredClone(document),
          structuredClone(patch) as never,
          true,
        ).newDocument
      } catch {
        return
      }
      applied += 1
      assert.deepEqual(applyPatch(document, patch), theirs)
    }),
    { numRuns: 2_000 },
  )
  assert.ok(applied > 200, String(applied))
})
