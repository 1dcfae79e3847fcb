// An HTTP server of the dev process: on the given port, or on any other if that is taken. stop() cuts open connections.
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Service } from '../../lib/lifecycle.ts'

export type HttpService = Service & { readonly port: () => number }

type HttpAddress = { readonly name: string; readonly host: string; readonly port: number }

export function createHttpService(server: Server, { name, host, port }: HttpAddress): HttpService {
  const listen = async (port: number) => {
    server.listen(port, host)
    await once(server, 'listening')
  }
  let opening: Promise<void> | undefined
  return {
    name,
    port: () => (server.address() as AddressInfo).port,
    start: async () => {
      opening = listen(port).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE') throw error
        return listen(0)
      })
      await opening
    },
    stop: async () => {
      await opening?.catch(() => undefined)
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
