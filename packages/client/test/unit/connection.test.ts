import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '../../src/client.ts'

test('listeners of the worst connection learn that a session is opened, but not while the caller opens it', async () => {
  const client = createClient({ url: 'http://localhost:1', fetch: () => new Promise(() => undefined) })
  let told = 0
  client.connection.subscribe(() => void (told += 1))
  client.session('talk')
  assert.equal(told, 0)
  await Promise.resolve()
  assert.equal(told, 1)
  client.close()
})
