// Server-sent events (`text/event-stream`), as a format of streams. A reader that is disconnected resumes from the last event id that it has.
import type { StreamFormat, StreamSource } from './stream.ts'

export type SentEvent = { readonly id: string; readonly data: { readonly type: string } }

/** The body that a handler returns for events. */
export type Events = StreamSource<SentEvent>

export const EVENTS: StreamFormat<SentEvent> = {
  contentType: 'text/event-stream',
  comment: ':\n\n',
  textOf: ({ id, data }) => `event: ${data.type}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`,
  // It has no id, so that a reader resumes after the event before it.
  lastText: ({ code, message }) =>
    `event: ended\ndata: ${JSON.stringify({ type: 'ended', code, text: message })}\n\n`,
}
