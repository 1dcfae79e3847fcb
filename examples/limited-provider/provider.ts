// A provider to try permits with, on PORT (8080). It answers after 300 ms. It accepts six concurrent calls, tells nobody this
// limit, and rejects further calls with 429. GET /books shows what it did.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

const AT_ONCE = 6
const books = { answered: 0, refused: 0, inFlight: 0, mostAtOnce: 0 }

const server = createServer(async (request, response) => {
  if (request.url === '/books') return void response.end(JSON.stringify(books))
  if (books.inFlight === AT_ONCE) {
    books.refused += 1
    return void response.writeHead(429).end()
  }
  books.inFlight += 1
  books.mostAtOnce = Math.max(books.mostAtOnce, books.inFlight)
  await pause(300)
  books.inFlight -= 1
  books.answered += 1
  response.end('an answer')
})
server.listen(Number(process.env['PORT'] ?? '8080'), 'localhost', () => {
  console.log(`Listening on http://localhost:${(server.address() as AddressInfo).port}`)
})
