// The clients of `bench sockets`, in a process of their own: groups of sockets that are idle, or read replies.
import type { RawData } from 'ws'
import { WebSocket } from 'ws'
import { SOCKET_PROTOCOL } from '@fleetline/protocol'
import { nowMs } from './now.ts'
import { obey } from './orders.ts'
import { CHUNK_MS, stampsIn } from './stamped-speech.ts'

export type Orders = {
  /** Opens sockets that are authenticated. With sessions, each joins one of them, in turn. */
  open(group: string, at: Group): void
  /** Reads one reply in each socket, and returns when all have been read, or it has taken far too long. */
  read(group: string, round: number, chunks: number): Read
  /** Closes the group. Returns how many of its sockets the server had closed before. */
  close(group: string): { closed: number }
}
type Group = {
  readonly url: string
  readonly token?: string
  readonly count: number
  readonly sessions: readonly string[]
}
export type Read = {
  /** From the agent to the reader, for each chunk of each reader. */
  readonly delaysMs: readonly number[]
  /** Chunks that came only with the stored reply. */
  readonly late: number
  readonly frames: number
  /** When the last reply began, and when its last chunk was said, since the order to read. */
  readonly begunMs: number
  readonly saidMs: number
}

const AT_ONCE = 50
const PATIENCE_MS = 120_000
const groups = new Map<string, Reader[]>()

type Reader = {
  readonly ws: WebSocket
  /** Called with each text frame. */
  take: (text: string, atMs: number) => void
}

obey<Orders>({
  open: async (group, { url, token, count, sessions }) => {
    const readers: Reader[] = []
    groups.set(group, readers)
    const openNext = async () => {
      for (let next = readers.length; next < count; next = readers.length) {
        const reader = connect(url)
        readers.push(reader)
        await ask(reader, 'welcome', { type: 'hello', ...(token !== undefined && { token }) })
        const session = sessions[next % sessions.length]
        if (session !== undefined) await ask(reader, 'joined', { type: 'join', cid: 'j', session })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, openNext))
  },
  read: async (group, round, chunks) => {
    const readers = groups.get(group)!
    const [delaysMs, complete] = [[] as number[], Promise.withResolvers<void>()]
    const startMs = nowMs()
    let [late, frames, open, begunMs, lastMs] = [0, 0, readers.length, 0, 0]
    for (const reader of readers) {
      const seen = new Set<number>()
      reader.take = (text, atMs) => {
        const isStored = text.includes('"type":"messages"')
        const fresh = stampsIn(text).filter((stamp) => stamp.round === round && !seen.has(stamp.n))
        if (fresh.length === 0) return
        for (const { n, saidMs } of fresh) {
          seen.add(n)
          if (n === 0) begunMs = Math.max(begunMs, saidMs - startMs)
          lastMs = Math.max(lastMs, saidMs - startMs)
          delaysMs.push(Math.round((atMs - saidMs) * 1_000) / 1_000)
        }
        frames += 1
        if (isStored) late += fresh.length
        if (seen.size === chunks && (open -= 1) === 0) complete.resolve()
      }
    }
    const timer = setTimeout(complete.resolve, chunks * CHUNK_MS + PATIENCE_MS)
    await complete.promise
    clearTimeout(timer)
    for (const reader of readers) reader.take = () => undefined
    return { delaysMs, late, frames, begunMs, saidMs: lastMs }
  },
  close: async (group) => {
    const readers = groups.get(group)!
    const closed = readers.filter(({ ws }) => ws.readyState !== WebSocket.OPEN).length
    groups.delete(group)
    for (const { ws } of readers) ws.terminate()
    return { closed }
  },
})

function connect(url: string): Reader {
  const ws = new WebSocket(url, SOCKET_PROTOCOL, { perMessageDeflate: false })
  const reader: Reader = { ws, take: () => undefined }
  ws.on('message', (data: RawData) => reader.take((data as Buffer).toString(), nowMs()))
  ws.on('error', () => undefined) // its end is counted
  return reader
}

/** Resolves at the first frame of the type. Rejects if the socket ends before. */
async function ask(reader: Reader, type: string, frame: object): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { ws } = reader
  const onClose = (code: number, reason: Buffer) => reject(new Error(`No ${type}: ${code} ${String(reason)}`))
  ws.once('close', onClose)
  reader.take = (text) => {
    if (text.startsWith(`{"type":"${type}"`)) resolve()
    else if (text.startsWith('{"type":"error"')) reject(new Error(text))
  }
  if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify(frame))
  else ws.once('open', () => ws.send(JSON.stringify(frame)))
  await promise
  ws.off('close', onClose)
  reader.take = () => undefined
}
