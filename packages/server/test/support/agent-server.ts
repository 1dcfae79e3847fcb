// An agent behind a URL, in the test's own process. It records every request, and the test controls every response.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'

export type Received = { readonly headers: IncomingHttpHeaders; readonly body: Buffer; readonly path: string }
export type Answer = (received: Received, response: ServerResponse) => unknown

export const SAID = [
  { type: 'start' },
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'hello from afar' },
  { type: 'text-end', id: '1' },
  { type: 'finish' },
]

export async function agentServer(t: TestContext, answer: Answer) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const one = { headers: request.headers, body: Buffer.concat(pieces), path: request.url! }
    received.push(one)
    await answer(one, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const die = () => {
    server.close()
    server.closeAllConnections()
  }
  atEnd(t, die)
  return { received, url: `http://127.0.0.1:${port}/api/chat?x=1`, /** Ends it before the test ends. */ die }
}

/** Responds with one chunk per line. */
export function lines(response: ServerResponse, chunks: readonly object[] = SAID): void {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  response.end(chunks.map((chunk) => `${JSON.stringify(chunk)}\n`).join(''))
}
