// Keeps messages that are not stored yet in the browser, so that they are sent even if the page is closed before. The pages of a user share
// what is kept, and each message belongs to one page. Guarantees:
//   a message belongs to the page that has sent it while that page is open, so that no two pages send it
//   when a page is closed, another open page takes over its messages at once; if there is none, the next page that is opened does
// A page is open as long as it holds a lock of its name. Where there are no locks (pages that came over plain HTTP), a page that is
// opened takes over all messages; one that another page has, too, is stored once, because its id is its natural key.
import type { Message } from '@fleetline/protocol'
import type { Kept } from './kept.ts'

export type IndexedDbOutboxOptions = {
  /** Whose messages these are. Another user of the browser must not send them. */
  readonly user: string
  /** Called if the browser keeps nothing, for example because its storage is full. The messages are still sent while the page is open. */
  readonly onError?: (error: unknown) => void
}
type Row = { readonly session: string; readonly message: Message; readonly page: string }
type Adopt = (session: string, messages: readonly Message[]) => void

const STORE = 'messages'

export function indexedDbOutbox({ user, onError = () => undefined }: IndexedDbOutboxOptions): Kept {
  const name = `fleetline outbox of ${user}`
  const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join('')
  const lockOf = (one: string) => `${name}: ${one}`
  const channel = new BroadcastChannel(name)
  const closing = new AbortController()
  const awaited = new Set<string>()
  const opened = Promise.all([openDatabase(name), holdLock(lockOf(page), closing.signal)])
  let last: Promise<unknown> = opened.catch(onError)
  /** One after the other, so that a message is kept before it is forgotten. */
  const inOrder = (work: () => Promise<void>) => {
    last = last.then(work).catch(onError)
  }
  const change = async (work: (store: IDBObjectStore) => unknown) => {
    const [database] = await opened
    const transaction = database.transaction(STORE, 'readwrite')
    work(transaction.objectStore(STORE))
    await done(transaction)
  }
  /** Lets the other pages wait for the end of this page. Call it before a message is kept, because the page may end at any time. */
  const announce = () => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no origin to name
    channel.postMessage(page)
  }

  const takeOver = async (adopt: Adopt) => {
    if (closing.signal.aborted) return
    const owners = new Set<string>()
    await eachRow(change, ({ value }) => void owners.add(value.page))
    owners.delete(page)
    const open = await openLocks() // after the read: each open page that it has found holds its lock by now
    const gone = new Set(Array.from(owners).filter((owner) => !open.has(lockOf(owner))))
    if (gone.size > 0) announce()
    const left = new Map<string, Message[]>()
    await eachRow(change, (cursor) => {
      const { session, message, page: owner } = cursor.value
      if (!gone.has(owner)) return
      cursor.update({ ...cursor.value, page })
      left.set(session, [...(left.get(session) ?? []), message])
    })
    left.forEach((messages, session) => adopt(session, messages))
    for (const owner of owners) if (!gone.has(owner)) awaitEnd(owner, adopt)
  }
  /** Takes over the messages of an open page when it is closed. */
  const awaitEnd = (owner: string, adopt: Adopt) => {
    if (awaited.has(owner) || !('locks' in navigator)) return
    awaited.add(owner)
    const waiting = { mode: 'shared', signal: closing.signal } as const
    navigator.locks
      .request(lockOf(owner), waiting, () => undefined)
      .then(() => inOrder(() => takeOver(adopt)))
      .catch((error: unknown) => closing.signal.aborted || onError(error))
  }
  return {
    keep: (session, message) =>
      inOrder(async () => {
        announce()
        await change((store) => store.add({ session, message, page } satisfies Row))
      }),
    forget: (session, id) =>
      inOrder(() =>
        eachRow(change, (cursor) => {
          if (cursor.value.session === session && cursor.value.message.id === id) cursor.delete()
        }),
      ),
    watch: (adopt, signal) => {
      const close = () =>
        inOrder(async () => {
          channel.close()
          closing.abort()
        })
      signal.addEventListener('abort', close, { once: true })
      channel.addEventListener('message', ({ data }) => awaitEnd(String(data), adopt))
      inOrder(() => takeOver(adopt))
    },
  }
}

async function openDatabase(name: string): Promise<IDBDatabase> {
  const request = indexedDB.open(name, 1)
  request.addEventListener('upgradeneeded', () =>
    request.result.createObjectStore(STORE, { autoIncrement: true }),
  )
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result))
    request.addEventListener('error', () => reject(request.error as Error))
  })
}

function done(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.addEventListener('complete', () => resolve())
    for (const name of ['abort', 'error'])
      transaction.addEventListener(name, () => reject(transaction.error as Error))
  })
}

type RowCursor = Omit<IDBCursorWithValue, 'value'> & { readonly value: Row }

/** Calls the function with each message, the oldest first, in one transaction. */
function eachRow(
  change: (work: (store: IDBObjectStore) => unknown) => Promise<void>,
  visit: (cursor: RowCursor) => void,
): Promise<void> {
  return change((store) => {
    const request = store.openCursor()
    request.addEventListener('success', () => {
      const cursor: RowCursor | null = request.result
      if (!cursor) return
      visit(cursor)
      cursor.continue()
    })
  })
}

/** Resolves when this page holds the lock, until the signal is aborted. */
function holdLock(name: string, signal: AbortSignal): Promise<void> {
  if (!('locks' in navigator)) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const untilClosed = () =>
      new Promise<void>((release) => {
        signal.addEventListener('abort', () => release())
        resolve()
      })
    navigator.locks.request(name, untilClosed).catch(reject)
  })
}

async function openLocks(): Promise<ReadonlySet<string | undefined>> {
  if (!('locks' in navigator)) return new Set()
  const { held = [] } = await navigator.locks.query()
  return new Set(held.map(({ name }) => name))
}
