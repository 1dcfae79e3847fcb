// Runs a route on Node, as Next.js and similar frameworks do. The module's `POST` answers the requests to PORT (3000).
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'

type Route = { readonly POST: (request: Request) => Promise<Response> }

const [module, port] = [process.argv[2], process.env['PORT'] ?? '3000']
if (module === undefined)
  throw new Error('Say which module: npm run example -- examples/fetch-agent/route.ts')
const { POST } = (await import(pathToFileURL(resolve(module)).href)) as Route

const server = createServer(async (incoming, outgoing) => {
  const left = new AbortController() // aborted when the client closes the connection
  outgoing.on('close', () => left.abort())
  try {
    const { status, headers, body } = await POST(requestOf(incoming, left.signal))
    outgoing.writeHead(status, Object.fromEntries(headers))
    await pipeline(Readable.from(body ?? []), outgoing)
  } catch (error) {
    const { code, name } = error as { readonly code?: unknown; readonly name?: unknown }
    if (code === 'ERR_STREAM_PREMATURE_CLOSE' || name === 'AbortError') return // the client is gone
    console.error(error)
    if (!outgoing.headersSent) outgoing.writeHead(500)
    outgoing.end()
  }
})
server.listen(Number(port), 'localhost', () =>
  console.log(`Listening on http://localhost:${(server.address() as AddressInfo).port}/`),
)

function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request {
  const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  )
  const body = incoming.method === 'POST' ? Readable.toWeb(incoming) : undefined
  return new Request(`http://localhost${incoming.url}`, {
    method: incoming.method ?? 'GET',
    headers,
    signal,
    ...(body && { body, duplex: 'half' }),
  })
}
