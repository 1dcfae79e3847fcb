// A port that forwards each new connection to the current target, as a load balancer does.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { atEnd, type Scope } from './cleanup.ts'

type Front = {
  readonly port: number
  /** Breaks all connections. */
  readonly cut: () => void
}

export async function frontOn(t: Scope, target: () => number): Promise<Front> {
  const clients = new Set<Socket>()
  const cut = () => clients.forEach((client) => client.destroy())
  const server = createServer((client) => {
    clients.add(client)
    client.on('close', () => clients.delete(client))
    const behind = connect(target(), 'localhost')
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const)
      from.on('error', () => undefined).on('close', () => to.destroy())
    client.pipe(behind).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    cut()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, cut }
}

export async function portInFront(t: Scope, target: () => number): Promise<number> {
  return (await frontOn(t, target)).port
}
