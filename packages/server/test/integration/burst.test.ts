// Many people ask at once, on a pod that has just started. No call waits for a slow task. Calls wait for a limit only after
// the provider has rejected one of them.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from '@fleetline/protocol'
import { agent, type AgentDefinition } from '../../src/agent/agent.ts'
import { task } from '../../src/machine/definition.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { saying } from '../support/talk.ts'

const TASKS = 50 // one for each slot of a pod

async function crowdOn(t: TestContext, talks: number, answer: AgentDefinition['answer']) {
  const url = await databaseFor(t)
  const release = Promise.withResolvers<void>()
  let busy = 0
  const slow = task('slow', async () => {
    busy += 1
    await release.promise
    return null
  })
  const { pod, gateway } = await podOn(t, url, {}, { tasks: [slow], agents: [agent('bot', answer)] })
  await pod.enqueueAll(Array.from({ length: TASKS }, () => ({ machine: slow })))
  await eventually(() => assert.equal(busy, TASKS), { what: 'slow tasks in every slot' })
  const sessions = await Promise.all(
    Array.from({ length: talks }, () => makeSession(gateway, { agent: 'bot' })),
  )
  await Promise.all(
    sessions.map(async ({ session }) => {
      const { status } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text: 'hi' })
      assert.equal(status, 200)
    }),
  )
  return {
    untilAnswered: async () => {
      for (const { session } of sessions)
        await eventually(
          async () => {
            const { body } = await call('GET', `${gateway}/v1/sessions/${session}/messages`)
            assert.equal((body as unknown as Page).items.length, 2)
          },
          { what: 'a reply', patienceMs: 60_000 },
        )
      release.resolve()
    },
  }
}

test('when 200 people ask at once beside slow tasks in every slot, all calls begin before the first ends', async (t) => {
  const all = Promise.withResolvers<void>()
  let [begun, ended] = [0, 0]
  const crowd = await crowdOn(t, 200, async function* () {
    begun += 1
    assert.equal(ended, 0)
    if (begun === 200) all.resolve()
    await all.promise
    ended += 1
    yield* saying('hello')
  })
  await crowd.untilAnswered()
  assert.deepEqual({ begun, ended }, { begun: 200, ended: 200 }, 'one call for each person')
})

test('a provider that takes ten calls rejects one burst and then at most three; everybody is answered once', async (t) => {
  const [talks, takes] = [40, 10]
  const all = Promise.withResolvers<void>()
  let [asked, inFlight, refused, done] = [0, 0, 0, 0]
  const crowd = await crowdOn(t, talks, async function* () {
    asked += 1
    if (asked === talks) all.resolve()
    const isOver = inFlight >= takes
    if (!isOver) inFlight += 1
    await all.promise // no call is rejected before all were sent
    if (isOver) {
      refused += 1
      throw Object.assign(new Error('Too many'), { status: 429 })
    }
    await pause(50)
    inFlight -= 1
    done += 1
    yield* saying('hello')
  })
  await crowd.untilAnswered()
  assert.deepEqual({ done, taken: asked - refused }, { done: talks, taken: talks })
  const later = refused - (talks - takes)
  assert.ok(later >= 0 && later <= 3, `${later} calls were rejected after the first burst`)
})
