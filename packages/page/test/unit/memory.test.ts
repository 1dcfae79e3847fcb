// The attempts of replies outlive a reload of the page.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keepTrails, recallTrails } from '../../src/memory.ts'

function browserWith(t: { after: (work: () => void) => void }, kept: Map<string, string>): void {
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  }
  const before = Object.getOwnPropertyDescriptor(globalThis, 'localStorage')
  Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true })
  t.after(() => {
    if (before) Object.defineProperty(globalThis, 'localStorage', before)
    else Reflect.deleteProperty(globalThis, 'localStorage')
  })
}

test('trails are recalled as they were kept, by session and device', (t) => {
  browserWith(t, new Map())
  const attempts = [{ attempt: 1, pod: 'pod-1', atMs: 1, firstMs: null, lastMs: 2 }]
  keepTrails('demo laptop', new Map([['turn_1', { turn: 'turn_1', attempts, said: {} }]]))
  assert.deepEqual([...recallTrails('demo laptop').values()], [{ turn: 'turn_1', attempts }])
  assert.equal(recallTrails('demo phone').size, 0)
})

for (const kept of ['', '{', 'null', '[null, 1, {"turn": "t", "attempts": [{"pod": 1}]}]'])
  test(`anything else that is kept there is ignored: ${kept}`, (t) => {
    browserWith(t, new Map([['fleetline trails demo', kept]]))
    assert.equal(recallTrails('demo').size, 0)
  })
