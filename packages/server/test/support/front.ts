// A port that forwards each new connection to the current target, as a load balancer does.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { atEnd, type Scope } from './cleanup.ts'

export async function portInFront(t: Scope, target: () => number): Promise<number> {
  const server = createServer((client) => {
    const behind = connect(target(), 'localhost')
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const)
      from.on('error', () => undefined).on('close', () => to.destroy())
    client.pipe(behind).pipe(client)
    atEnd(t, () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close())
  return (server.address() as AddressInfo).port
}
