// Answers that are written by hand: to input that never became a request, and to a handshake that is refused.
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { bodyOf, type Refusal } from './refusal.ts'

export const HEADER_BYTES: number = 16 * 1024

export function headersOf(requestId: string) {
  return { 'x-request-id': requestId, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }
}

/** Answers input that never became a request. */
export function answerFault(code: string | undefined, socket: Duplex, requestId: string): void {
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const [status, refusal] = RAW[code ?? ''] ?? [
    400,
    { code: 'invalid', text: 'This is not well-formed HTTP.' },
  ]
  answerRaw(socket, { status, refusal, requestId })
}

type Answer = { readonly status: number; readonly refusal: Refusal; readonly requestId: string }

/** Writes a refusal by hand and closes the connection. */
export function answerRaw(socket: Duplex, { status, refusal, requestId }: Answer): void {
  const body = JSON.stringify(bodyOf(refusal, requestId))
  const headers = {
    ...headersOf(requestId),
    ...headersOfRefusal(refusal),
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([key, value]) => `${key}: ${value}`)
  socket.once('finish', () => socket.destroy()) // a client need not close its side
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'))
}

const RAW: Readonly<Record<string, readonly [status: number, refusal: Refusal]>> = {
  HPE_HEADER_OVERFLOW: [431, { code: 'too_large', text: `The headers are over ${HEADER_BYTES} bytes.` }],
  ERR_HTTP_REQUEST_TIMEOUT: [408, { code: 'invalid', text: 'The request did not arrive in time.' }],
}

/** Headers that belong to a refusal. */
export function headersOfRefusal({ code, retryAfterMs }: Refusal): Record<string, string> {
  return {
    ...(retryAfterMs !== undefined && { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }),
    ...(code === 'unauthenticated' && { 'www-authenticate': 'Bearer' }),
  }
}
