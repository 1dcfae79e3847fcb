// The runtime of assistant-ui over sessions of a pod: what a person does in a page, and what another device shows.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient, type Session } from '@fleetline/client'
import { toExternalStore, toThreadList } from '@fleetline/client/assistant-ui'
import type { Chunk } from '@fleetline/protocol'
import type { AgentCall } from '../../../server/src/agent/agent.ts'
import { Abort } from '../../../server/src/errors.ts'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { databaseFor } from '../../../server/test/support/database.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { makeSession } from '../../../server/test/support/http.ts'
import { podOn } from '../../../server/test/support/pod.ts'
import { twoPodsOn } from '../../../server/test/support/two-pods.ts'
import { runtimeOf, type RuntimeInTest } from '../support/assistant-ui.ts'

let [calls, failures] = [0, 0]

/** Counts its calls. Asked to wait, it waits until it is stopped; asked to fail, it fails once, without a word. */
async function* answer({ messages, signal }: AgentCall): AsyncGenerator<Chunk> {
  const text = String(messages.findLast(({ role }) => role === 'user')!.parts[0]!['text'])
  if (text === 'fail' && (failures += 1) === 1) throw new Abort('invalid', 'The agent broke off.')
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: `reply ${(calls += 1)} to ${text}` }
  if (text === 'wait') await pause(60_000, undefined, { signal })
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}

function clientOf(t: TestContext, url: string) {
  const client = createClient({ url })
  atEnd(t, () => client.close())
  return client
}

/** A device that shows the session in assistant-ui. */
function deviceOf(session: Session): RuntimeInTest {
  const store = () => toExternalStore({ ...session, ...session.get() })
  const shown = runtimeOf(store())
  session.subscribe(() => shown.set(store()))
  return shown
}

const linesOf = ({ messages }: RuntimeInTest) =>
  messages().map(({ content, status }) => {
    const text = content.map((part) => ('text' in part ? part.text : part.type)).join()
    return status ? `${text} (${status.type === 'incomplete' ? status.reason : status.type})` : text
  })

test('send, edit, reload, cancel and a failure: both devices show what is stored', async (t) => {
  const { session, pods } = await twoPodsOn(t, answer)
  const here = deviceOf(clientOf(t, pods.here).session(session))
  const there = deviceOf(clientOf(t, pods.there).session(session)) // what it shows is in the database, so a stop keeps it
  const show = (...lines: string[]) =>
    eventually(
      () => {
        for (const device of [here, there]) {
          assert.deepEqual(linesOf(device), lines)
          assert.ok(device.branches().every((branches) => branches === 1))
        }
      },
      { what: lines.join(' | '), details: () => JSON.stringify([here, there].map(linesOf)) },
    )
  const say = ({ runtime: { thread } }: RuntimeInTest, text: string) => {
    thread.composer.setText(text)
    thread.composer.send()
  }
  const last = ({ runtime: { thread } }: RuntimeInTest) =>
    thread.getMessageById(thread.getState().messages.at(-1)!.id)

  say(here, 'Rome?')
  await show('Rome?', 'reply 1 to Rome? (complete)')
  last(there).reload()
  await show('Rome?', 'reply 2 to Rome? (complete)')
  const { composer } = here.runtime.thread.getMessageByIndex(0)
  composer.beginEdit()
  composer.setText('Naples?')
  composer.send()
  await show('Naples?', 'reply 3 to Naples? (complete)')
  say(there, 'wait')
  await show('Naples?', 'reply 3 to Naples? (complete)', 'wait', 'reply 4 to wait (running)')
  here.runtime.thread.cancelRun()
  await show('Naples?', 'reply 3 to Naples? (complete)', 'wait', 'reply 4 to wait (cancelled)')
  assert.equal(here.runtime.thread.getState().isRunning, false)
  say(here, 'fail')
  const before = ['Naples?', 'reply 3 to Naples? (complete)', 'wait', 'reply 4 to wait (cancelled)']
  await show(...before, 'fail', ' (error)')
  const { status } = last(there).getState()
  assert.ok(status?.type === 'incomplete' && typeof status.error === 'string')
  last(there).reload()
  await show(...before, 'fail', 'reply 5 to fail (complete)')
})

test('threads are renamed, archived and brought back, on all devices', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  for (const title of ['Rome', 'Naples']) await makeSession(gateway, { title, members: ['mia'] })
  const device = () => {
    const client = clientOf(t, gateway)
    const [inbox, archived] = (['all', 'archived'] as const).map((show) =>
      client.inbox({ show, user: 'mia' }),
    )
    const adapter = () => ({
      ...toExternalStore({ ...session, ...session.get() }),
      adapters: {
        threadList: toThreadList(
          { ...inbox!, ...inbox!.get() },
          { threadId: 'trip', archived: archived!.get() },
        ),
      },
    })
    const session = client.session('trip')
    const shown = runtimeOf(adapter())
    for (const one of [inbox!, archived!]) one.subscribe(() => shown.set(adapter()))
    return shown.runtime.threads
  }
  const [here, there] = [device(), device()]
  const show = (threads: string[], archived: string[]) =>
    eventually(
      () => {
        for (const device of [here, there]) {
          const { threadIds, archivedThreadIds, threadItems } = device.getState()
          const titles = (ids: readonly string[]) => new Set(ids.map((id) => threadItems[id]?.title))
          assert.deepEqual(
            [titles(threadIds), titles(archivedThreadIds)],
            [new Set(threads), new Set(archived)],
          )
        }
      },
      { what: `threads ${threads.join()}` },
    )
  await show(['Naples', 'Rome'], [])
  const { threadIds, threadItems } = here.getState()
  const rome = threadIds.find((id) => threadItems[id]?.title === 'Rome')!
  await here.getItemById(rome).rename('To Rome')
  await show(['Naples', 'To Rome'], [])
  await there.getItemById(rome).archive()
  await show(['Naples'], ['To Rome'])
  await here.getItemById(rome).unarchive()
  await show(['Naples', 'To Rome'], [])
})
