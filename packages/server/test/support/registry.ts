// A registry of npm packages on this machine: it has the packed packages of this repository, and passes every other request on to the registry
// that npm uses here. So a proof installs what would be published, by the commands that users type.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'

type Manifest = { readonly name: string; readonly version: string }
type Packed = { readonly manifest: Manifest; readonly data: Buffer; readonly file: string }

/** Resolves to its URL. `folder` has the tarballs. */
export async function startRegistry(t: TestContext, folder: string): Promise<string> {
  const packed = globSync('*.tgz', { cwd: folder }).map((file) => packedIn(join(folder, file)))
  const upstream = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim()
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.slice(1))
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const tarball = packed.find(({ file }) => path === `tarballs/${file}`)
    const named = packed.find(({ manifest }) => path === manifest.name)
    if (tarball) response.end(tarball.data)
    else if (named) sendJson(response, documentOf(named, base))
    else passOn(new URL(request.url!.slice(1), upstream), response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

function packedIn(path: string): Packed {
  const text = execFileSync('tar', ['xzOf', path, 'package/package.json'], { encoding: 'utf8' })
  return { manifest: JSON.parse(text) as Manifest, data: readFileSync(path), file: basename(path) }
}

/** What a registry says of a package. */
function documentOf({ manifest, data, file }: Packed, base: string): object {
  const { name, version } = manifest
  const integrity = `sha512-${createHash('sha512').update(data).digest('base64')}`
  const dist = { tarball: `${base}tarballs/${file}`, integrity }
  return { name, 'dist-tags': { latest: version }, versions: { [version]: { ...manifest, dist } } }
}

function sendJson(response: ServerResponse, value: object): void {
  response.setHeader('content-type', 'application/json').end(JSON.stringify(value))
}

function passOn(url: URL, response: ServerResponse): void {
  fetch(url)
    .then(async (answer) => {
      const type = answer.headers.get('content-type')
      response.writeHead(answer.status, type ? { 'content-type': type } : {})
      response.end(Buffer.from(await answer.arrayBuffer()))
    })
    .catch(() => response.writeHead(502).end())
}
