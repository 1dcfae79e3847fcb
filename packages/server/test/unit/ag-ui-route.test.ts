// Following a session as AG-UI events, without a pod: what the reader gets if the conversation cannot be read, or only the end of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '@fleetline/protocol'
import { agUiRoutes } from '../../src/gateway/ag-ui/route.ts'

const SESSION = 'ses_0000000000000000000000000000000000000'
const AGAIN = { seq: 0, ended: 0, erased: 0 }

const reply = (seq: number): Item => ({
  seq,
  id: `m${seq}`,
  role: 'assistant',
  parts: [{ type: 'text', text: 'Hi.' }],
  author: { kind: 'agent' },
  at: 'now',
})

type Options = {
  /** What is read of the conversation. */
  readonly read: () => Promise<readonly Item[]>
  /** The reader has been there before. */
  readonly isBack?: boolean
}

/** The events up to the first snapshot, or the end of the stream. */
async function followed({ read, isBack = false }: Options) {
  const page = { head: 1, epoch: 1, turn: null, version: 1, eraseCount: 0, bytes: 0 }
  const deps = {
    keyOf: async () => ({ tenant: 1, session: '00000000-0000-7000-8000-000000000000' }),
    maySee: async () => true,
    explainMissing: async () => new Error('missing'),
    sessions: {
      read: async () => ({ ...page, items: [] }),
      findTurn: async () => undefined,
      readConversation: async () => ({ ...page, items: await read() }),
    },
    operations: {
      /** Nothing happens in this session until its reader leaves. */
      follow: async () =>
        async function* ({ signal }: { readonly signal: AbortSignal }) {
          if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
          yield* []
        },
    },
    cell: 0,
    random: { bytes: (count: number) => new Uint8Array(count) },
  }
  const [route] = agUiRoutes(deps as never)
  const cursor = isBack ? { at: AGAIN, where: 'pause' } : undefined
  const asked = { principal: null, params: { session: SESSION }, query: { limit: 1, cursor }, headers: {} }
  const { body } = (await (route!.handle as (input: unknown) => Promise<unknown>)(asked)) as {
    readonly body: (listener: object) => AsyncIterable<{ readonly data: { readonly type: string } }>
  }
  const events: { readonly type: string; readonly snapshot?: unknown }[] = []
  for await (const { data } of body({ signal: new AbortController().signal, cut: () => undefined })) {
    events.push(data)
    if (data.type === 'RUN_FINISHED') break
  }
  return events
}

test('a stream whose first snapshot cannot be read breaks, and does not wait for the session to move', async () => {
  await assert.rejects(
    followed({
      read: async () => {
        throw new Error('the database is gone')
      },
    }),
    /the database is gone/,
  )
})

test('a reader that comes back keeps its state unless the whole conversation has none', async () => {
  const statesOf = async (first: Item) =>
    (await followed({ read: async () => [first], isBack: true }))
      .filter(({ type }) => type === 'STATE_SNAPSHOT')
      .map(({ snapshot }) => snapshot)
  assert.deepEqual(await statesOf(reply(7)), [])
  assert.deepEqual(await statesOf(reply(1)), [{}])
})
