// A port that is free now, for a program that cannot choose one by itself.
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

export async function freePort(host = '127.0.0.1'): Promise<number> {
  const probe = createServer().listen(0, host)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}
