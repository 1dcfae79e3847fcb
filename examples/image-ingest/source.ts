// A server with one image, to try the machine with: GET /cat.gz on PORT (8080).
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'

const image = Buffer.alloc(4_000_000, 'meow ')
const packed = gzipSync(image)

const server = createServer((request, response) => {
  console.log(`${request.method} ${request.url}`)
  if (request.url === '/cat.gz') response.end(packed)
  else response.writeHead(404).end()
})
server.listen(Number(process.env['PORT'] ?? '8080'), 'localhost', () => {
  console.log(`Listening on http://localhost:${(server.address() as AddressInfo).port}`)
  console.log(`The image cat has the SHA-256 ${createHash('sha256').update(image).digest('hex')}`)
})
