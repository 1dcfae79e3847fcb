// A follower of a session, as an application runs one: over server-sent events, or over a socket. It keeps what it received.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import {
  CLOSE_CODES,
  createAssembler,
  type EndedFrame,
  type Frame,
  type Item,
  type Message,
  type ServerFrame,
} from '@fleetline/protocol'
import { EventSourceParserStream, type EventSourceMessage } from 'eventsource-parser/stream'
import { atEnd } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { socketOn } from './socket.ts'

export type Reader = {
  readonly face: 'events' | 'socket'
  readonly events: readonly EventSourceMessage[]
  readonly frames: readonly Frame[]
  readonly items: readonly Item[]
  /** The last event, if it says why the stream ended. */
  readonly why: () => EndedFrame | undefined
  readonly lastId: () => string | undefined
  /** Cuts the connection. */
  readonly cut: () => void
  /** Resolves to true if the stream ended, to false if it was cut. */
  readonly ended: Promise<boolean>
}

export async function readEvents(
  t: TestContext,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reader> {
  const cutting = new AbortController()
  atEnd(t, () => cutting.abort())
  const answer = await fetch(url, { headers, signal: cutting.signal })
  assert.deepEqual(
    [answer.status, answer.headers.get('content-type'), answer.headers.get('connection')],
    [200, 'text/event-stream', 'close'],
  )
  const [events, frames, items] = [[] as EventSourceMessage[], [] as Frame[], [] as Item[]]
  const parsed = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  let why: EndedFrame | undefined
  const take = async () => {
    for await (const event of parsed) {
      const frame = JSON.parse(event.data) as Frame | EndedFrame
      if (frame.type === 'ended') {
        why = frame
        continue
      }
      events.push(event)
      frames.push(frame)
      if (frame.type === 'messages') items.push(...frame.items)
    }
  }
  const ended = take().then(
    () => true,
    () => false,
  )
  const lastId = () => events.at(-1)?.id
  const cut = () => cutting.abort()
  return { face: 'events', events, frames, items, why: () => why, lastId, cut, ended }
}

/** Follows the session over a socket of its own. */
export async function readSocket(
  t: TestContext,
  gateway: string,
  join: { readonly session: string; readonly [field: string]: unknown },
): Promise<Reader> {
  const socket = await socketOn(t, gateway)
  const [frames, items, cursors] = [[] as Frame[], [] as Item[], [] as string[]]
  let why: EndedFrame | undefined
  const take = (data: unknown) => {
    const frame = JSON.parse((data as Buffer).toString()) as ServerFrame
    if (frame.type === 'left') why = { ...frame, type: 'ended' }
    if (!('cursor' in frame)) return
    const { cursor, ...told } = frame
    cursors.push(cursor)
    frames.push(told)
    if (told.type === 'messages') items.push(...told.items)
  }
  socket.ws.on('message', take)
  const answer = await socket.ask({ type: 'join', ...join })
  assert.equal(answer.type, 'joined', JSON.stringify(answer))
  const ended = socket.closed.then(({ code }) => code === CLOSE_CODES.restart)
  const lastId = () => cursors.at(-1)
  return { face: 'socket', events: [], frames, items, why: () => why, lastId, cut: socket.cut, ended }
}

export async function untilSeq({ items, frames }: Reader, seq: number, how?: 'at least'): Promise<void> {
  await eventually(
    () => {
      const last = items.at(-1)?.seq ?? 0
      assert.ok(how === 'at least' ? last >= seq : last === seq)
    },
    {
      what: `the reader to be at seq ${seq}`,
      details: () => `It is at ${items.at(-1)?.seq}, after ${frames.length} frames.`,
    },
  )
}

/** Assembles the chunks of a turn as a client does. Returns the last open message. Throws at a gap or an older attempt. */
export function openMessage(frames: readonly Frame[], turn: string): Message | undefined {
  let [assembler, attempt, next] = [createAssembler(''), 0, 0]
  for (const frame of frames) {
    if (frame.type !== 'chunks' || frame.turn !== turn) continue
    assert.ok(frame.attempt >= attempt, `attempt ${frame.attempt} behind ${attempt}`)
    if (frame.index === 0) assembler = createAssembler('')
    else assert.deepEqual([frame.attempt, frame.index], [attempt, next], 'a hole')
    ;[attempt, next] = [frame.attempt, frame.index + frame.count]
    frame.chunks.forEach(assembler.push)
  }
  return next === 0 ? undefined : assembler.message()
}

export function openText(frames: readonly Frame[], turn: string): string {
  return (
    openMessage(frames, turn)
      ?.parts.map(({ text }) => text)
      .join('') ?? ''
  )
}
