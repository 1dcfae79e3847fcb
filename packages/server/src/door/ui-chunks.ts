// The UI message stream of the AI SDK, as a format of streams: each chunk is the data of an event, and `[DONE]` follows the last one. The SDK
// takes a body that ends for a whole reply. So the body ends only after its last piece; otherwise the connection breaks, and the client can
// resume.
import type { Chunk } from '@fleetline/protocol'
import type { StreamFormat, StreamSource } from './stream.ts'

export type UiPiece = { readonly chunks: readonly Chunk[]; readonly isLast?: boolean }

/** The body that a handler returns for chunks. */
export type UiChunks = StreamSource<UiPiece>

export const UI_CHUNKS: StreamFormat<UiPiece> = {
  contentType: 'text/event-stream',
  headers: { 'x-vercel-ai-ui-message-stream': 'v1', 'x-accel-buffering': 'no' },
  comment: ':\n\n',
  textOf: ({ chunks, isLast = false }) =>
    [...chunks.map((chunk) => JSON.stringify(chunk)), ...(isLast ? ['[DONE]'] : [])]
      .map((data) => `data: ${data}\n\n`)
      .join(''),
  isLast: ({ isLast = false }) => isLast,
}
