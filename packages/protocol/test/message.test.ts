import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JSON_LIMITS, messageFault, type Part } from '../src/index.ts'

function nested(depth: number): unknown {
  let value: unknown = 'deep'
  for (let level = 0; level < depth; level += 1) value = [value]
  return value
}

function part(fields: Record<string, unknown>): { parts: Part[] } {
  return { parts: [{ type: 'data-x', ...fields }] }
}

test('content that jsonb would refuse, or would change, is found before it is stored', () => {
  const cases: readonly (readonly [
    content: Parameters<typeof messageFault>[0],
    fault: RegExp | undefined,
  ])[] = [
    [{ parts: [{ type: 'text', text: 'hello 👋' }], metadata: { a: [1, null, true] } }, undefined],
    [part({ text: 'a\0b' }), /U\+0000/],
    [part({ 'a\0b': 1 }), /U\+0000/],
    [part({ text: '\ud800' }), /surrogate/],
    [part({ data: JSON.parse('{"__proto__": 1}') as unknown }), /__proto__ is not allowed/],
    [{ parts: [], metadata: { constructor: 1 } }, /constructor is not allowed/],
    [part({ data: JSON.parse('1e400') as unknown }), /out of range/],
    [part({ data: nested(JSON_LIMITS.depth - 3) }), undefined],
    [part({ data: nested(JSON_LIMITS.depth) }), /deeper than 64/],
    [part({ data: nested(300_000) }), /deeper than 64/],
    [part({ data: Array.from({ length: JSON_LIMITS.keys }, () => 0) }), /more than 10000/],
  ]
  for (const [content, fault] of cases) {
    const found = messageFault(content)
    if (fault) assert.match(found ?? 'none', fault)
    else assert.equal(found, undefined)
  }
})
