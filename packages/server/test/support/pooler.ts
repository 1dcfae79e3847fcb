// A transaction pooler in front of PostgreSQL's socket. A client gets a server connection with its first message and keeps it
// until the server reports that no transaction is open. Then the next client gets it. Like PgBouncer with
// `pool_mode = transaction`, it rejects a client whose startup message sets anything other than its identity (`ALLOWED`).
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'

type Client = { readonly socket: Socket; server: Server | undefined; waiting: Buffer[] }
type Server = { readonly socket: Socket; owner: Client | undefined; isFree: boolean; rest: Buffer }

const SSL_REQUEST = 80_877_103
const PROTOCOL = 196_608
const ALLOWED = new Set(['user', 'database', 'application_name', 'client_encoding'])
const [READY, IDLE, TERMINATE] = ['Z', 'I', 'X'].map((letter) => letter.charCodeAt(0))

export async function poolerFor(t: TestContext, databaseUrl: string, size: number): Promise<{ url: string }> {
  const { hostname, pathname, username } = new URL(databaseUrl)
  const [clients, line] = [new Set<Client>(), [] as Client[]]
  const assign = () => {
    for (const server of servers.filter(({ isFree }) => isFree)) {
      const client = line.shift()
      if (!client) return
      Object.assign(server, { owner: client, isFree: false })
      client.server = server
      for (const data of client.waiting.splice(0)) server.socket.write(data)
    }
  }
  const give = (server: Server) => {
    if (server.owner) server.owner.server = undefined
    Object.assign(server, { owner: undefined, isFree: true })
    servers.push(...servers.splice(servers.indexOf(server), 1)) // the next transaction gets another connection
    assign()
  }
  const open = (): Server => {
    const socket = connect(`${decodeURIComponent(hostname)}/.s.PGSQL.5432`)
    const server: Server = { socket, owner: undefined, isFree: false, rest: Buffer.alloc(0) }
    socket.write(startup({ user: username, database: pathname.slice(1), application_name: 'pooled' }))
    socket.on('error', () => undefined)
    socket.on('data', (data: Buffer) => {
      server.owner?.socket.write(data)
      if (isIdleAfter(server, data)) give(server)
    })
    return server
  }
  const servers = Array.from({ length: size }, open)
  const listener = createServer((socket) => {
    const client: Client = { socket, server: undefined, waiting: [] }
    clients.add(client)
    let hasStarted = false
    socket.on('error', () => undefined)
    socket.on('data', (data: Buffer) => {
      if (data[0] === TERMINATE) return void socket.destroy()
      if (!hasStarted) return void (hasStarted = greet(socket, data))
      if (client.server) return void client.server.socket.write(data)
      if (client.waiting.push(data) === 1) line.push(client)
      assign()
    })
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    listener.close()
    clients.forEach(({ socket }) => socket.destroy())
    servers.forEach(({ socket }) => socket.destroy())
  })
  return { url: `postgres://${username}@127.0.0.1:${(listener.address() as AddressInfo).port}${pathname}` }
}

/** Replies to the first message of a client. Returns false if that was an SSL request: the startup message follows. */
function greet(socket: Socket, data: Buffer): boolean {
  if (data.readInt32BE(4) === SSL_REQUEST) {
    socket.write('N')
    return false
  }
  const words = data.subarray(8).toString().split('\0')
  const unknown = words.filter((word, index) => index % 2 === 0 && word !== '' && !ALLOWED.has(word))
  if (unknown.length > 0)
    socket.end(message('E', `SFATAL\0C08P01\0Munsupported startup parameter: ${unknown[0]}\0\0`))
  else
    socket.write(
      Buffer.concat([message('R', '\0\0\0\0'), message('S', 'server_version\x0015.0\0'), message('Z', 'I')]),
    )
  return true
}

function isIdleAfter(server: Server, data: Buffer): boolean {
  let [rest, isIdle] = [Buffer.concat([server.rest, data]), false]
  while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
    if (rest[0] === READY) isIdle = rest[5] === IDLE
    rest = rest.subarray(1 + rest.readInt32BE(1))
  }
  server.rest = rest
  return isIdle
}

function message(type: string, body: string): Buffer {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(4 + Buffer.byteLength(body), 1)
  return Buffer.concat([head, Buffer.from(body)])
}

function startup(parameters: Readonly<Record<string, string>>): Buffer {
  const body = Buffer.from(`${Object.entries(parameters).flat().join('\0')}\0\0`)
  const head = Buffer.alloc(8)
  head.writeInt32BE(8 + body.length)
  head.writeInt32BE(PROTOCOL, 4)
  return Buffer.concat([head, body])
}
