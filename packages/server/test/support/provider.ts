// A provider over HTTP that does not reveal its limit. It accepts up to `limit` concurrent calls and rejects the others. It
// counts the calls that it served, the calls that it rejected, and the most calls that were in flight at once.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Scope } from './cleanup.ts'
import { atEnd } from './cleanup.ts'

export type Provider = {
  readonly url: string
  readonly books: { taken: number; refused: number; inFlight: number; peak: number }
}

export async function providerOf(t: Scope, { limit, ms }: { readonly limit: number; readonly ms: number }) {
  const books = { taken: 0, refused: 0, inFlight: 0, peak: 0 }
  const server = createServer(async (_, response) => {
    if (books.inFlight >= limit) {
      books.refused += 1
      return void response.writeHead(429).end()
    }
    books.inFlight += 1
    books.peak = Math.max(books.peak, books.inFlight)
    await pause(ms)
    books.inFlight -= 1
    books.taken += 1
    response.end('done')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.close()
    server.closeAllConnections()
  })
  return { books, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}
