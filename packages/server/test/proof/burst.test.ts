// A provider accepts ten concurrent calls. 200 people ask a pod that has just started, and slow tasks fill all its slots. The
// provider rejects one burst, and after it at most one call in a hundred. The used part of the provider's capacity is a figure.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from '@fleetline/protocol'
import { agent } from '../../src/agent/agent.ts'
import { task } from '../../src/machine/definition.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { proofSize } from '../support/proof-size.ts'
import { saying } from '../support/talk.ts'

const [TALKS, TAKES, TASKS] = [200, 10, 50]
const REPLIES = proofSize({ full: 5, quick: 2 }) // of each talk
const WHOLE_MS = 500
const REFUSED_MS = 100
const BURST_MS = 2_000

test(`a provider that takes ${TAKES} calls rejects one burst of ${TALKS} people, and then at most one call in a hundred`, async (t) => {
  const url = await databaseFor(t)
  const release = Promise.withResolvers<void>()
  const slow = task('slow', () => release.promise)
  let [inFlight, sentLater, refusedAtFirst, refusedLater, done, firstMs] = [0, 0, 0, 0, 0, 0]
  const answer = async function* () {
    firstMs ||= performance.now()
    const isLater = performance.now() - firstMs > BURST_MS
    if (isLater) sentLater += 1
    if (inFlight >= TAKES) {
      await pause(REFUSED_MS)
      if (isLater) refusedLater += 1
      else refusedAtFirst += 1
      throw Object.assign(new Error('Too many'), { status: 429 })
    }
    inFlight += 1
    await pause(WHOLE_MS)
    inFlight -= 1
    done += 1
    yield* saying('hello')
  }
  const { pod, gateway } = await podOn(t, url, {}, { tasks: [slow], agents: [agent('bot', answer)] })
  await pod.enqueueAll(Array.from({ length: TASKS }, () => ({ machine: slow })))
  const talk = async (session: string) => {
    for (let n = 1; n <= REPLIES; n += 1) {
      await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text: `question ${n}` })
      await eventually(
        async () => {
          const { body } = await call('GET', `${gateway}/v1/sessions/${session}/messages`)
          assert.equal((body as unknown as Page).items.length, 2 * n)
        },
        { what: 'a reply', patienceMs: 300_000 },
      )
    }
  }
  const sessions = await Promise.all(
    Array.from({ length: TALKS }, () => makeSession(gateway, { agent: 'bot' })),
  )
  await Promise.all(sessions.map(({ session }) => talk(session)))
  const usedMs = (done * WHOLE_MS) / TAKES
  release.resolve()
  assert.equal(done, TALKS * REPLIES)
  t.diagnostic(`figure refused_at_first ${refusedAtFirst}`)
  t.diagnostic(`figure refused_later_percent ${(100 * refusedLater) / sentLater}`)
  t.diagnostic(`figure goodput ${usedMs / (performance.now() - firstMs)}`)
  assert.ok(refusedLater <= sentLater / 100, `${refusedLater} of ${sentLater} were refused later`)
})
