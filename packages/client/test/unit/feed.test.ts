// What a device follows when sockets cannot be used.
import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { test } from 'node:test'
import { createClient } from '../../src/client.ts'
import { manualClock } from '../../../server/test/support/clock.ts'
import { eventually } from '../../../server/test/support/eventually.ts'

test('the code of event streams is loaded when it is needed, and again if that fails', async () => {
  let [loads, requests] = [0, 0]
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier.endsWith('/stream.ts') && (loads += 1) <= 2) throw new Error('The network is down')
      return next(specifier, context)
    },
  })
  const clock = manualClock()
  const fetch = () => {
    requests += 1
    return new Promise<Response>(() => undefined)
  }
  const client = createClient({ url: 'http://localhost:1', fetch, clock, random: () => 0.5 })
  try {
    client.session('talk')
    const step = async () => {
      await clock.advance(25)
      assert.equal(requests, 1)
    }
    await eventually(step, { what: 'the request' })
    assert.equal(loads, 3)
  } finally {
    client.close()
    hooks.deregister()
  }
})
