// A follower of an inbox, as an application runs one. It keeps the newest item of each session, as a client does.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { EndedFrame, InboxFrame, InboxItem } from '@fleetline/protocol'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { atEnd } from './cleanup.ts'

export type InboxReader = {
  readonly frames: readonly InboxFrame[]
  /** By the ids of the sessions. */
  readonly items: ReadonlyMap<string, InboxItem>
  /** What must never happen in a stream: one sentence each. */
  readonly broken: readonly string[]
  readonly cut: () => void
  /** Resolves to true if the stream ended, to false if it was cut. */
  readonly ended: Promise<boolean>
}

export async function readInbox(
  t: TestContext,
  gateway: string,
  query = '',
  token?: string,
): Promise<InboxReader> {
  const cutting = new AbortController()
  atEnd(t, () => cutting.abort())
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const answer = await fetch(`${gateway}/v1/inbox/events${query}`, { headers, signal: cutting.signal })
  assert.equal(answer.status, 200)
  const [frames, items] = [[] as InboxFrame[], new Map<string, InboxItem>()]
  const [broken, revs]: [string[], Map<string, number>] = [[], new Map()]
  const come = (session: string, rev: number) => {
    if (rev <= (revs.get(session) ?? -1)) broken.push(`${session}: rev ${rev} after ${revs.get(session)}`)
    revs.set(session, rev)
  }
  const parsed = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  const take = async () => {
    for await (const event of parsed) {
      const frame = JSON.parse(event.data) as InboxFrame | EndedFrame
      if (frame.type === 'ended') continue
      if (frame.revision !== frames.length + 1) broken.push(`revision ${frame.revision}`)
      frames.push(frame)
      if (frame.reset) items.clear()
      for (const item of frame.items) {
        come(item.session, item.rev)
        items.set(item.session, item)
      }
      for (const { session, rev } of frame.removed) {
        come(session, rev)
        items.delete(session)
      }
    }
  }
  const ended = take().then(
    () => true,
    () => false,
  )
  return { frames, items, broken, cut: () => cutting.abort(), ended }
}
