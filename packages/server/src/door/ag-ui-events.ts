// AG-UI events, as a format of streams. Their type is in their data alone, so that `onmessage` of a browser's EventSource gets all of them.
import type { SentEvent } from './events.ts'
import type { StreamFormat } from './stream.ts'

export const AG_UI_EVENTS: StreamFormat<SentEvent> = {
  contentType: 'text/event-stream',
  comment: ':\n\n',
  textOf: ({ id, data }) => `id: ${id}\ndata: ${JSON.stringify(data)}\n\n`,
  // A reader resumes after the event before it, but the run that was open is not open any more.
  endOf: ({ code, message }, last) => {
    const id = last && /[^~]~$/.test(last.id) ? `id: ${last.id}~\n` : ''
    return `${id}data: ${JSON.stringify({ type: 'RUN_ERROR', message, code })}\n\n`
  },
}
