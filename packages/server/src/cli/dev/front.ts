// A port in front of the pods. Each connection goes to a random pod that is ready, as through a load balancer. It passes bytes
// and parses nothing. A pod that refuses the connection is skipped. When a pod dies, its connections end.
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { Rejected } from '../../errors.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'

type Front = Service & { port(): number }

type Deps = {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly random: Random
  /** The ports of the pods that are ready now. */
  readonly targets: () => readonly number[]
}

export function createFront({ name, host, port, random, targets }: Deps): Front {
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket))
  }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    keep(client)
    reach(client, [...targets()])
  })

  const reach = (client: Socket, left: number[]): void => {
    const [target] = left.splice(Math.floor(random.unit() * left.length), 1)
    if (target === undefined || client.destroyed) return void client.destroy()
    const pod = connect({ port: target, host, allowHalfOpen: true, noDelay: true })
    keep(pod)
    const passOver = () => reach(client, left)
    pod.once('error', passOver)
    pod.once('connect', () => {
      pod.off('error', passOver)
      client.once('close', () => pod.destroy())
      pod.once('close', () => client.destroy())
      client.pipe(pod).pipe(client)
    })
  }

  let opening: Promise<unknown> | undefined
  return {
    name,
    port: () => (server.address() as { port: number }).port,
    start: async () => {
      server.listen(port, host)
      opening = once(server, 'listening')
      await opening.catch((cause: unknown) => {
        if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause
        throw new Rejected('invalid', `Port ${port} of ${host} is taken: give --port and --operator-port`, {
          cause,
        })
      })
    },
    stop: async () => {
      await opening?.catch(() => undefined)
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
