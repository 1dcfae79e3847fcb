// The server of a page that runs a program of a test.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { build } from 'esbuild'
import { atEnd, type Scope } from '../../../server/test/support/cleanup.ts'

/** Bundles the program for `/program.js`, and serves everything else by `answer`. Resolves to its port. */
export async function serveProgram(t: Scope, contents: string, answer: RequestListener): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname },
    bundle: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['fleetline-source'],
    write: false,
  })
  const server = createServer((request, response) => {
    if (request.url !== '/program.js') return answer(request, response)
    response.writeHead(200, { 'content-type': 'text/javascript' }).end(outputFiles[0]!.text)
  })
  server.listen(0)
  await once(server, 'listening')
  atEnd(t, () => server.close().closeAllConnections())
  return (server.address() as AddressInfo).port
}
