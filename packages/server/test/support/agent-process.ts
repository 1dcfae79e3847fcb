// An agent as a separate process. It prints its port, and for each call the idempotency key and the attempt. With the argument
// `holds` it goes silent in the middle of its reply and leaves the response open.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { verify } from 'fleetline/agent'

const [secret, word] = process.argv.slice(2)
const chunks = [
  { type: 'start' },
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: `said by ${process.pid}` },
  { type: 'text-end', id: '1' },
  { type: 'finish' },
]

const server = createServer(async (request, response) => {
  const body = await new Response(request as never).arrayBuffer()
  const headers = request.headers as Record<string, string>
  const { turn } = await verify(new Request('http://agent/', { method: 'POST', headers, body }), secret!)
  console.log(`called ${headers['idempotency-key']} ${turn.attempt}`)
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  for (const chunk of word === 'holds' ? chunks.slice(0, 3) : chunks)
    response.write(`${JSON.stringify(chunk)}\n`)
  if (word !== 'holds') response.end()
})
server.listen(0, '127.0.0.1', () => console.log(`port ${(server.address() as AddressInfo).port}`))
