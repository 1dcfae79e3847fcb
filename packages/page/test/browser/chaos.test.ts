// A minute of chaos: a random pod dies every 5 s, while both devices ask for replies. In the end the log has every message once,
// every message has its reply, and both devices show what the log has.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item, Page as LogPage } from '@fleetline/protocol'
import type { Page } from 'playwright-core'
import { cloneFor, startFleet } from '../../../server/test/support/clone.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { openChromium, openPage } from '../support/chromium.ts'
import { onDevice } from '../support/device.ts'

const CHAOS_MS = 60_000
const PATIENCE = { patienceMs: 120_000 } // a pod died a moment ago, and several messages still wait for replies
const FILLER =
  'and a pod that dies meanwhile takes none of these words with it, nor does it say one of them twice'

async function logOf(api: string): Promise<readonly Item[]> {
  const answer = await fetch(`http://localhost:${api}/v1/sessions/demo/messages?limit=100`)
  assert.equal(answer.status, 200)
  return ((await answer.json()) as LogPage).items
}

const textOf = ({ parts }: Item) => parts.map(({ text }) => text).join('\n')

/** Each message is stored once, no turn has two replies, and a reply repeats the last of the messages that it answers. */
function repliesAreRight(log: readonly Item[], sent: readonly string[]): void {
  const users = log.filter(({ role }) => role === 'user')
  const replies = log.filter(({ role }) => role === 'assistant')
  assert.deepEqual(users.map(textOf).toSorted(), sent.toSorted(), 'every message is stored once')
  assert.equal(new Set(replies.map(({ turn }) => turn)).size, replies.length, 'no turn has two replies')
  for (const reply of replies) {
    const answered = users.findLast(({ seq }) => seq <= reply.answers!)!
    assert.equal(textOf(reply), `You said: ${textOf(answered)}`)
  }
  assert.ok(replies.at(-1)!.answers! >= users.at(-1)!.seq, 'every message has its reply')
}

async function setChaos(page: Page, isOn: boolean): Promise<void> {
  await page.locator(`.chaos[aria-checked=${!isOn}]`).click()
  await page.locator(`.chaos[aria-checked=${isOn}]`).waitFor()
}

test('after a minute of chaos no message is lost or doubled, and both devices show the log', async (t) => {
  const fleet = await startFleet(t, 'npm run fleetline -- dev --no-model', cloneFor(t))
  const page = await openPage(await openChromium(t), fleet.page)
  const devices = [onDevice(page, 'laptop'), onDevice(page, 'phone')]
  const sent: string[] = []
  await setChaos(page, true)
  const endMs = performance.now() + CHAOS_MS
  while (performance.now() < endMs) {
    const text = `message ${sent.length + 1}: ${FILLER}`
    await devices[sent.length % 2]!.say(text)
    sent.push(text)
  }
  await setChaos(page, false)
  const kills = fleet.output().match(/is killed/g)?.length ?? 0
  assert.ok(kills >= 5, `${kills} pods were killed`)

  const isDone = async () => {
    const log = await logOf(fleet.api)
    repliesAreRight(log, sent)
    for (const device of devices) assert.deepEqual(await device.read(), log.map(textOf))
    assert.equal(await page.locator('.score').innerText(), `${sent.length} acked\n0 lost\n0 doubled`)
    return log
  }
  const log = await eventually(isDone, { what: 'all replies', ...PATIENCE, details: fleet.output })
  t.diagnostic(`figure chaos_kills ${kills}`)
  t.diagnostic(`figure chaos_messages ${sent.length}`)
  t.diagnostic(`figure chaos_replies ${log.length - sent.length}`)
  assert.equal(await fleet.stop(), 0, fleet.output())
})
