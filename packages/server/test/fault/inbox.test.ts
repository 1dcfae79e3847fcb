// I1 I2: two pods as processes, a follower of one inbox on each, four writers. One pod is killed; its follower comes back on the other.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InboxPage } from '@fleetline/protocol'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { readInbox, type InboxReader } from '../support/inbox.ts'
import { startPod } from '../support/pods.ts'

const SESSIONS = 6
const EACH = 30

test('I1 I2: followers of an inbox end with every session as it is, also the one whose pod was killed', async (t) => {
  const url = await databaseFor(t)
  const [doomed, other] = [await startPod(t, url), await startPod(t, url)]
  const sessions: string[] = []
  for (let n = 0; n < SESSIONS; n += 1)
    sessions.push((await makeSession(other.gateway, { members: ['ada', 'bob'] })).session)
  const readers = [
    await readInbox(t, doomed.gateway, '?user=ada'),
    await readInbox(t, other.gateway, '?user=ada'),
  ]
  const write = async (writer: number) => {
    for (let n = 0; n < EACH; n += 1) {
      const at = `${other.gateway}/v1/sessions/${sessions[(writer + n) % SESSIONS]!}`
      const { status, body } = await call('POST', `${at}/messages`, { text: `${writer}-${n}`, author: 'bob' })
      assert.equal(status, 200)
      if (n % 7 === writer) await call('POST', `${at}/read`, { seq: body['seq'], user: 'ada' })
      if (writer === 0 && n === EACH / 2) doomed.program.kill('SIGKILL')
    }
  }
  await Promise.all([0, 1, 2, 3].map(write))
  assert.equal(await readers[0]!.ended, false)
  const back = await readInbox(t, other.gateway, '?user=ada')
  await call('POST', `${other.gateway}/v1/sessions/${sessions[0]!}/messages`, { text: 'last', author: 'bob' })

  const page = (await call('GET', `${other.gateway}/v1/inbox?user=ada`)).body as unknown as InboxPage
  const byId = (items: Iterable<InboxPage['items'][number]>) =>
    new Map(Array.from(items, (item) => [item.session, item]))
  const isThere = ({ items }: InboxReader) => assert.deepEqual(byId(items.values()), byId(page.items))
  for (const reader of [readers[1]!, back])
    await eventually(() => isThere(reader), { what: 'every session as it is' })
  assert.equal(
    page.items.reduce((sum, { head }) => sum + head, 0),
    4 * EACH + 1,
  )
  for (const { broken } of [...readers, back]) assert.deepEqual(broken, [])
})
