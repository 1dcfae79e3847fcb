// Chaos for a minute, while replies run that were asked for on both devices: a random pod dies every 5 s. In the end the log has
// every message once, every message has its reply, and both devices show what the log has.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Item, Page } from '@fleetline/protocol'
import { cloneFor, startFleet } from '../../../server/test/support/clone.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { openChromium, openPage } from '../support/chromium.ts'
import { onDevice } from '../support/device.ts'

const CHAOS_MS = 60_000
const PATIENCE = { patienceMs: 60_000 } // the last pod died a moment ago, and others wait for their replies
const FILLER =
  'and a pod that dies meanwhile takes none of these words with it, nor does it say one of them twice'

async function logOf(api: string): Promise<readonly Item[]> {
  const answer = await fetch(`http://localhost:${api}/v1/sessions/demo/messages?limit=100`)
  assert.equal(answer.status, 200)
  return ((await answer.json()) as Page).items
}

const textOf = ({ parts }: Item) => parts.map(({ text }) => text).join('\n')

test('a minute of chaos: lost 0, doubled 0, both devices and the log are equal', async (t) => {
  const fleet = await startFleet(t, 'npm run fleetline -- dev', cloneFor(t))
  const page = await openPage(await openChromium(t), fleet.page)
  const devices = [onDevice(page, 'laptop'), onDevice(page, 'phone')]
  const sent: string[] = []
  await page.locator('.chaos').click()
  const endMs = performance.now() + CHAOS_MS
  while (performance.now() < endMs) {
    const text = `message ${sent.length + 1}: ${FILLER}`
    await devices[sent.length % 2]!.say(text)
    sent.push(text)
    await pause(1_500)
  }
  const kills = fleet.output().match(/is killed/g)?.length ?? 0
  await page.locator('.chaos').click()
  assert.ok(kills >= 5, `${kills} pods were killed`)

  const isDone = async () => {
    assert.equal(await page.locator('.user.pending, .log[aria-busy=true]').count(), 0)
    for (const device of devices) assert.match((await device.read()).at(-1)!, /^You said: /)
  }
  await eventually(isDone, { what: 'all replies', ...PATIENCE, details: fleet.output })
  const log = await logOf(fleet.api)
  const said = log.filter(({ role }) => role === 'user').map(textOf)
  assert.deepEqual(said.toSorted(), sent.toSorted(), 'every message is stored once')
  const turns = log.filter(({ role }) => role === 'assistant').map(({ turn }) => turn)
  assert.equal(new Set(turns).size, turns.length, 'no turn has two replies')
  for (const device of devices) assert.deepEqual(await device.read(), log.map(textOf))
  const score = async () =>
    assert.equal(await page.locator('.score').innerText(), `${sent.length} acked\n0 lost\n0 doubled`)
  await eventually(score, { what: 'the score', ...PATIENCE })
  t.diagnostic(`figure chaos_kills ${kills}`)
  t.diagnostic(`figure chaos_messages ${sent.length}`)
  t.diagnostic(`figure chaos_replies ${turns.length}`)
  assert.equal(await fleet.stop(), 0, fleet.output())
})
