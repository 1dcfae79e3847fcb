import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStore } from '../../src/store.ts'

const message = { id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] } as const

test('a listener that throws affects no other, and one that is added during a change is called the next time', (t) => {
  const queued: (() => void)[] = []
  t.mock.method(globalThis, 'queueMicrotask', (callback: () => void) => queued.push(callback))
  const store = createStore(() => undefined)
  const [late, told]: [string[], string[]] = [[], []]
  store.subscribe(() => {
    throw new Error('of the page')
  })
  const leave = store.subscribe(() => {
    leave()
    store.subscribe(() => late.push('told'))
  })
  store.subscribe(() => told.push(store.get().messages[0]!.id))
  store.take({ type: 'send', message })
  t.mock.restoreAll()
  assert.deepEqual(told, ['m'])
  assert.deepEqual(late, [])
  assert.equal(queued.length, 1)
  assert.throws(queued[0]!, /of the page/)
})

test('a snapshot never changes, and is the same object until something changes', () => {
  const store = createStore(() => undefined)
  const before = store.get()
  assert.equal(store.get(), before)
  store.take({ type: 'discard', id: 'nothing' })
  store.take({ type: 'send', message })
  assert.equal(before.messages.length, 0)
  assert.equal(store.get().messages.length, 1)
  assert.ok(Object.isFrozen(before), 'the snapshot is frozen')
  assert.ok(Object.isFrozen(before.messages), 'its messages are frozen')
})

test('a log that was restored while it was being loaded is loaded when all that it has now is here', () => {
  const store = createStore(() => undefined)
  store.setGoal(100)
  store.take({ type: 'begun', from: 50 })
  assert.equal(store.get().loading, true)
  store.take({ type: 'begun', from: 0 }) // joined again: a backup from before the first message
  store.setGoal(0)
  assert.equal(store.get().loading, false)
})
