// What assistant-ui is given, checked with its own functions and its own runtime.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  isMessageNotSentError,
  type AppendMessage,
  type ExternalStoreAdapter,
  type ExternalStoreThreadListAdapter,
} from '@assistant-ui/core'
import type { useExternalStoreRuntime } from '@assistant-ui/core/react'
import type { Id, InboxItem } from '@fleetline/protocol'
import { inputOf } from '../../src/assistant-ui-input.ts'
import { threadMessageOf } from '../../src/assistant-ui-message.ts'
import { toExternalStore, toThreadList, type ShownSession } from '../../src/assistant-ui.ts'
import type { Message } from '../../src/view.ts'
import { AT, messageOf, replyOf, runtimeOf, textOf, turnOf } from '../support/assistant-ui.ts'

const asked = (seq: number | null, text: string, more?: Partial<Message>) =>
  messageOf(seq, textOf(text), more)
const said = (seq: number, text: string, more?: Partial<Message>) => replyOf(seq, textOf(text), more)

/** A session that notes what it is asked. */
function sessionOf(messages: readonly Message[], more: Partial<ShownSession> = {}) {
  const asked: unknown[][] = []
  const note = async (...words: unknown[]) => void asked.push(words)
  const session: ShownSession = {
    messages,
    head: messages.findLast(({ seq }) => seq !== null)?.seq ?? 0,
    status: 'idle',
    turn: null,
    loading: false,
    refusal: null,
    send: (input) => {
      asked.push(['send', input])
      return { id: 'x', sent: new Promise(() => undefined) } // onNew must not wait for it
    },
    stop: async () => {
      asked.push(['stop'])
      return { stopped: true, seq: null }
    },
    regenerate: (id) => note('regenerate', id),
    edit: (id, input) => note('edit', id, input),
    discard: (id) => void asked.push(['discard', id]),
    ...more,
  }
  return { session, asked }
}

test('what has not changed is the same object', () => {
  const { session } = sessionOf([asked(1, 'Rome?'), said(2, 'Yes')])
  const first = toExternalStore(session).messageRepository
  assert.equal(toExternalStore({ ...session, loading: true }).messageRepository, first)
  const more = { ...session, messages: [...session.messages, asked(3, 'Why?')] }
  const next = toExternalStore(more).messageRepository.messages
  assert.deepEqual(
    next.slice(0, 2).map(({ message }, n) => message === first.messages[n]!.message),
    [true, true],
  )
  const inbox = { sessions: [itemOf()], loading: false, change: async () => assert.fail() }
  const list = toThreadList(inbox)
  assert.equal(toThreadList({ ...inbox, loading: true }).threads, list.threads)
  assert.equal(
    toThreadList({ ...inbox, sessions: [...inbox.sessions, itemOf()] }).threads[0],
    list.threads[0],
  )
})

test('messages that were replaced, or are of another session, leave no branch behind', () => {
  const before = [asked(1, 'Rome?'), said(2, 'Yes')]
  const edited = [asked(3, 'Naples?', { replaces: [[1, 2]] }), said(4, 'No')]
  const storeOf = (messages: readonly Message[]) => toExternalStore(sessionOf(messages).session)
  const { set, messages, branches } = runtimeOf(storeOf(before))
  set(storeOf(edited))
  assert.deepEqual(
    [messages().map(({ id }) => id), branches()],
    [
      ['m3', 'm4'],
      [1, 1],
    ],
  )
  const elsewhere = { threadId: 'ses_2' }
  set({ ...storeOf([asked(1, 'Hi', { id: 'n1' })]), adapters: { threadList: elsewhere } })
  assert.deepEqual([messages().map(({ id }) => id), branches()], [['n1'], [1]])
})

test('a plain list of messages would leave branches behind', () => {
  const storeOf = (messages: readonly Message[]): ExternalStoreAdapter<Message> => ({
    messages,
    convertMessage: (message) => threadMessageOf(message, null),
    onNew: async () => undefined,
  })
  const { set, branches } = runtimeOf(storeOf([asked(1, 'Rome?')]))
  set(storeOf([asked(3, 'Naples?')]))
  assert.deepEqual(branches(), [2])
})

test('a reply that has said nothing yet has its later id, and stands behind what is being sent', () => {
  const { session } = sessionOf([asked(1, 'Rome?'), asked(null, 'And Naples?')], {
    status: 'working',
    turn: turnOf(),
  })
  const store = toExternalStore(session)
  const { messages } = runtimeOf(store)
  assert.deepEqual(
    messages().map(({ id, status }) => [id, status?.type]),
    [
      ['m1', undefined],
      ['mnew', undefined],
      ['msg_1', 'running'],
    ],
  )
  assert.equal(store.isRunning, true)
  assert.equal(toExternalStore(session).messageRepository, store.messageRepository)
})

test('a turn that failed without a word says so, before what is being sent', () => {
  const error = { code: 'agent_failed', message: 'The agent broke off.' }
  const turn = turnOf({ state: 'failed', endedAt: AT, error })
  const { session } = sessionOf([asked(1, 'Rome?'), asked(null, 'Hello?')], {
    status: 'failed',
    turn,
    head: 1,
  })
  const { messages } = runtimeOf(toExternalStore(session))
  assert.deepEqual(
    messages().map(({ id }) => id),
    ['m1', 'msg_1', 'mnew'],
  )
  assert.deepEqual(messages()[1]!.status, { type: 'incomplete', reason: 'error', error: error.message })
  const stored = {
    ...session,
    messages: [asked(1, 'Rome?'), said(2, 'Ye', { id: 'msg_1', status: 'failed' })],
  }
  assert.equal(toExternalStore(stored).messageRepository.messages.length, 2)
})

const written = (words: string, more: Partial<AppendMessage> = {}): AppendMessage =>
  ({
    role: 'user',
    content: textOf(words),
    attachments: [],
    metadata: { custom: {} },
    createdAt: new Date(),
    parentId: null,
    sourceId: null,
    runConfig: undefined,
    ...more,
  }) as AppendMessage

test('the composer sends; it does not wait until the message is stored', async () => {
  const { session, asked: requests } = sessionOf([])
  const { runtime } = runtimeOf(toExternalStore(session))
  runtime.thread.composer.setText('Rome?')
  runtime.thread.composer.send()
  await new Promise(setImmediate)
  assert.deepEqual(requests, [['send', { parts: textOf('Rome?') }]])
})

test('a message that cannot be sent returns to the composer', async () => {
  const full = new Error('1000 messages wait to be sent already.')
  const errors: unknown[] = []
  const send = () => {
    throw full
  }
  const { session } = sessionOf([], { send })
  const store = toExternalStore(session, { onError: (error) => errors.push(error) })
  const { runtime } = runtimeOf(store)
  runtime.thread.composer.setText('Rome?')
  runtime.thread.composer.send()
  await new Promise(setImmediate)
  assert.equal(runtime.thread.composer.getState().text, 'Rome?')
  assert.deepEqual(errors, [full])
  await assert.rejects(store.onNew(written('Rome?')), isMessageNotSentError)
})

test('files, sounds and quotes of the composer are parts and metadata of the message', () => {
  const attachment = (name: string, part: object, contentType?: string) => ({
    name,
    contentType,
    content: [part],
  })
  const input = inputOf({
    ...written('Look'),
    attachments: [
      attachment('a.png', { type: 'image', image: 'data:image/webp;base64,AA==' }),
      attachment('b.png', { type: 'image', image: 'https://x.example/b' }, 'image/gif'),
      attachment('c', { type: 'file', data: 'AA==', mimeType: 'text/plain', filename: 'c.txt' }),
      attachment('d', { type: 'file', data: '/d', mimeType: '', sourceType: 'url' }, 'text/csv'),
      attachment('e.mp3', { type: 'audio', audio: { data: 'AA==', format: 'mp3' } }),
      attachment('f', { type: 'data', name: 'place', data: 'Rome' }),
    ] as unknown as NonNullable<Parameters<typeof inputOf>[0]['attachments']>,
    metadata: { custom: { quote: { text: 'Ciao' }, fleetline: 'copied' } },
  })
  assert.deepEqual(input, {
    parts: [
      { type: 'text', text: 'Look' },
      { type: 'file', mediaType: 'image/webp', url: 'data:image/webp;base64,AA==', filename: 'a.png' },
      { type: 'file', mediaType: 'image/gif', url: 'https://x.example/b', filename: 'b.png' },
      { type: 'file', mediaType: 'text/plain', url: 'data:text/plain;base64,AA==', filename: 'c.txt' },
      { type: 'file', mediaType: 'text/csv', url: '/d', filename: 'd' },
      { type: 'file', mediaType: 'audio/mpeg', url: 'data:audio/mpeg;base64,AA==', filename: 'e.mp3' },
      { type: 'data-place', data: 'Rome' },
    ],
    metadata: { quote: { text: 'Ciao' } },
  })
  assert.throws(() => inputOf(written('Hi', { role: 'assistant' })), /Only messages of users can be sent/)
})

test('edit, reload and cancel name the messages that the session knows', async () => {
  const messages = [asked(1, 'Rome?'), said(2, 'Yes'), asked(3, 'Why?'), said(4, 'So')]
  const { session, asked: requests } = sessionOf(messages)
  const { runtime } = runtimeOf(toExternalStore(session))
  const { composer } = runtime.thread.getMessageById('m3')
  composer.beginEdit()
  composer.setText('Naples?')
  composer.send()
  runtime.thread.getMessageById('m2').reload()
  runtime.thread.startRun({ parentId: 'm3' })
  runtime.thread.startRun({ parentId: 'm4' })
  runtime.thread.append(written('Milan?', { parentId: 'm2' }))
  runtime.thread.append(written('Last', { parentId: 'm4' }))
  await new Promise(setImmediate)
  runtime.thread.cancelRun()
  assert.deepEqual(requests.toSorted(byName), [
    ['edit', 'm3', { parts: textOf('Milan?') }],
    ['edit', 'm3', { parts: textOf('Naples?') }],
    ['regenerate', 'm2'],
    ['regenerate', 'm4'],
    ['regenerate', 'm4'],
    ['send', { parts: textOf('Last') }],
    ['stop'],
  ])
})
const byName = (one: unknown[], other: unknown[]) => JSON.stringify(one).localeCompare(JSON.stringify(other))

test('an edit of a rejected message sends another and discards it; a failed turn is asked again', async () => {
  const messages = [asked(1, 'Rome?'), asked(null, 'x', { delivery: 'failed' })]
  const turn = turnOf({ state: 'failed', endedAt: AT })
  const { session, asked: requests } = sessionOf(messages, { status: 'failed', turn })
  const store = toExternalStore(session)
  await store.onEdit(written('y', { sourceId: 'mnew', parentId: 'm1' }))
  await store.onReload('m1', { sourceId: 'msg_1' })
  assert.deepEqual(requests, [
    ['send', { parts: textOf('y') }],
    ['discard', 'mnew'],
    ['regenerate', 'm1'],
  ])
})

test('errors go to onError; without it, they reject', async () => {
  const stale = new Error('stale')
  const fail = async () => {
    throw stale
  }
  const { session } = sessionOf([asked(1, 'Rome?')], { regenerate: fail, edit: fail, stop: fail })
  const verbs = ({ onEdit, onReload, onCancel }: ReturnType<typeof toExternalStore>) =>
    Promise.allSettled([onEdit(written('x', { sourceId: 'm1' })), onReload('m1'), onCancel()])
  assert.deepEqual(
    (await verbs(toExternalStore(session))).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
  const errors: unknown[] = []
  const quiet = await verbs(toExternalStore(session, { onError: (error) => errors.push(error) }))
  assert.deepEqual(
    [quiet.map(({ status }) => status), errors],
    [
      ['fulfilled', 'fulfilled', 'fulfilled'],
      [stale, stale, stale],
    ],
  )
})

test('what is not built is not offered', () => {
  const { runtime } = runtimeOf(toExternalStore(sessionOf([]).session))
  const able = Object.entries(runtime.thread.getState().capabilities).filter(([, is]) => is)
  assert.deepEqual(able.map(([name]) => name).toSorted(), ['cancel', 'edit', 'reload', 'unstable_copy'])
})

function itemOf(more: Partial<InboxItem> = {}): InboxItem {
  return {
    session: 'ses_1' as Id<'session'>,
    alias: 'trip',
    title: 'Trip',
    agent: null,
    archived: false,
    head: 1,
    read: 1,
    unread: 0,
    preview: null,
    attention: null,
    turn: null,
    updatedAt: AT,
    rev: 1,
    ...more,
  }
}

test('an inbox is a list of threads; titles and archiving are changes of the inbox', async () => {
  const changes: unknown[] = []
  const change = async (...words: unknown[]) => {
    changes.push(words)
    return undefined as never
  }
  const [trip, untitled] = [itemOf(), itemOf({ session: 'ses_2' as Id<'session'>, alias: null, title: null })]
  const old = itemOf({ session: 'ses_3' as Id<'session'>, title: 'Old', archived: true })
  const inbox = { sessions: [trip, untitled], loading: false, change }
  const opened: string[] = []
  const threadList = toThreadList(inbox, {
    threadId: 'trip', // an alias
    archived: { sessions: [old], loading: false },
    onSwitchToThread: (id) => void opened.push(id),
  })
  const store = toExternalStore(sessionOf([]).session)
  const { runtime } = runtimeOf({ ...store, adapters: { threadList } })
  const { mainThreadId, threadIds, archivedThreadIds, threadItems, isLoading } = runtime.threads.getState()
  assert.deepEqual(
    [mainThreadId, threadIds, archivedThreadIds, isLoading],
    ['ses_1', ['ses_1', 'ses_2'], ['ses_3'], false],
  )
  const facts = ['ses_1', 'ses_2', 'ses_3'].map((id) => threadItems[id])
  assert.deepEqual(
    facts.map((item) => [item?.title, item?.status, item?.custom?.['fleetline']]),
    [
      ['Trip', 'regular', trip],
      [undefined, 'regular', untitled],
      ['Old', 'archived', old],
    ],
  )
  await runtime.threads.switchToThread('ses_2')
  await runtime.threads.getItemById('ses_1').rename('To Rome')
  await runtime.threads.getItemById('ses_1').archive()
  await runtime.threads.getItemById('ses_3').unarchive()
  assert.deepEqual(opened, ['ses_2'])
  assert.deepEqual(changes, [
    ['ses_1', { title: 'To Rome' }],
    ['ses_1', { archived: true }],
    ['ses_3', { archived: false }],
  ])
  await assert.rejects(runtime.threads.switchToNewThread(), /does not support switching to new thread/)
})

/** The types fit: this is only compiled. */
export const typed = (
  session: ShownSession,
  inbox: Parameters<typeof toThreadList>[0],
  use: typeof useExternalStoreRuntime,
) => {
  const threadList: ExternalStoreThreadListAdapter = toThreadList(inbox, { threadId: undefined })
  const store: ExternalStoreAdapter = { ...toExternalStore(session), adapters: { threadList } }
  // @ts-expect-error -- a snapshot without the functions of its session
  toExternalStore({ messages: [], head: 0, status: 'idle', turn: null, loading: false, refusal: null })
  // @ts-expect-error -- an inbox that can change nothing
  toThreadList({ sessions: [], loading: false })
  // @ts-expect-error -- a thread is archived or regular
  threadList.threads = [{ id: 'ses_1', status: 'gone' }]
  return [store, use({ ...toExternalStore(session), adapters: { threadList } })]
}
