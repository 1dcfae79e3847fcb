// AG-UI events, as a format of streams. Their type is in their data alone, so that `onmessage` of a browser's EventSource gets all of them.
import type { SentEvent } from './events.ts'
import type { StreamFormat } from './stream.ts'

export const AG_UI_EVENTS: StreamFormat<SentEvent> = {
  contentType: 'text/event-stream',
  comment: ':\n\n',
  textOf: ({ id, data }) => `id: ${id}\ndata: ${JSON.stringify(data)}\n\n`,
  // The reader keeps the id of the last event. If a run was open there (`~`), the id becomes `~~`, so that a reader who resumes does not get a
  // second RUN_ERROR.
  lastText: ({ code, message }, last) => {
    const id = last && /[^~]~$/.test(last.id) ? `id: ${last.id}~\n` : ''
    return `${id}data: ${JSON.stringify({ type: 'RUN_ERROR', message, code })}\n\n`
  },
}
