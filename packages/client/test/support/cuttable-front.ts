// An address in front of pods. It leads to the port that the test names, or nowhere. `cut` ends all connections without a word.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { atEnd, type Scope } from '../../../server/test/support/cleanup.ts'

type Front = { readonly gateway: string; readonly cut: () => void }

export async function cuttableFront(t: Scope, port: () => number | undefined): Promise<Front> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const to = port()
    if (to === undefined) return void client.destroy()
    const behind = connect(to, '127.0.0.1')
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(one)
      one
        .on('error', () => undefined)
        .once('close', () => {
          sockets.delete(one)
          other.destroy()
        })
    }
    client.pipe(behind).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => sockets.forEach((socket) => socket.resetAndDestroy())
  atEnd(t, () => {
    server.close()
    cut()
  })
  return { gateway: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cut }
}
