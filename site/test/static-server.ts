// Serves the files of a folder, as any host of static files would: `/` is index.html, and a missing file is 404.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, normalize } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from '../../packages/server/test/support/cleanup.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
}

/** Resolves to the address of the server, without a slash at the end. */
export async function serveFolder(t: TestContext, folder: string): Promise<string> {
  const server = createServer(async ({ url = '/' }, response) => {
    const path = normalize(decodeURI(new URL(url, 'http://site').pathname)).replace(/\/$/, '/index.html')
    try {
      const body = await readFile(join(folder, path))
      response
        .writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream' })
        .end(body)
    } catch {
      response.writeHead(404).end()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => (server.closeAllConnections(), server.close()))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
