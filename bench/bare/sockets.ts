// A bare `ws` server, as a team would write one for a single process: sockets join topics, and each chunk of an agent goes to those
// that have joined. Its frames have the bytes of a pod's frames. It authenticates nobody, checks no frame, stores nothing, and does
// not notice readers that are slow or gone.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer, type WebSocket } from 'ws'
import { SOCKET_PROTOCOL } from '@fleetline/protocol'
import { speakStamped, type Wanted } from '../support/stamped-speech.ts'

const PING_MS = 25_000
const NAME = '0'.repeat(36) // as long as an id
const topics = new Map<string, Set<WebSocket>>()

const server = createServer(async (request, response) => {
  let body = ''
  for await (const piece of request.setEncoding('utf8')) body += String(piece)
  const { session, ...wanted } = JSON.parse(body) as Wanted & { readonly session: string }
  response.end('{}')
  await speakTo(session, wanted)
})
const sockets = new WebSocketServer({
  server,
  perMessageDeflate: false,
  handleProtocols: () => SOCKET_PROTOCOL,
})
sockets.on('connection', (ws) => {
  ws.on('error', () => undefined)
  ws.on('message', (data) => {
    const { type, session = '' } = JSON.parse((data as Buffer).toString()) as {
      type: string
      session?: string
    }
    if (type === 'hello') return ws.send(JSON.stringify({ type: 'welcome' }))
    const topic = topics.get(session) ?? new Set()
    topics.set(session, topic.add(ws))
    ws.once('close', () => topic.delete(ws))
    ws.send(JSON.stringify({ type: 'joined', session }))
  })
})
setInterval(() => sockets.clients.forEach((ws) => ws.ping()), PING_MS)
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))

async function speakTo(session: string, wanted: Wanted): Promise<void> {
  let index = 0
  for await (const chunk of speakStamped(wanted)) {
    const place = { session, turn: NAME, attempt: 1, index, count: 1 }
    const frame = JSON.stringify({ type: 'chunks', ...place, chunks: [chunk], cursor: `1-1.1.${index}` })
    topics.get(session)?.forEach((ws) => ws.send(frame))
    index += 1
  }
}
