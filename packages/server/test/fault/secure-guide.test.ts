// docs/guides/secure.md as a reader types it: a role and a database of its own, a pod that lets nobody in without a key, and the
// back ends that mint tokens. The proof `proxies` runs its files for nginx and Caddy.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import type { Page } from '@fleetline/protocol'
import pg from 'pg'
import { OPERATOR_SCOPES, TENANT_SCOPES } from '../../src/identity/scopes.ts'
import { INSECURE_NAMES } from '../../src/lib/insecure.ts'
import { tokenKeysOf } from '../../src/lib/setting-values.ts'
import { atEnd } from '../support/cleanup.ts'
import { admin, databaseUrlOf } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { blocksIn, plain } from '../support/guide.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { CLI, runProgram, withoutSettings } from '../support/program.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/secure.md'), 'utf8')
const [ROUTE, SERVER] = ['route.ts', 'server.py'].map((file) => join(ROOT, 'examples/tokens', file)) as [
  string,
  string,
]
const ALLOWED = 'fsync,synchronous-commit' // what the server of tests needs

const blocksOf = (section: string) => blocksIn(PAGE, section)
const codeIn = (section: string, language: string) =>
  blocksOf(section).find((block) => block.language === language)!.text

test('the guide to security shows the examples as they are, every reason why a pod does not start, and every scope', () => {
  assert.equal(codeIn('Tokens for browsers', 'ts'), readFileSync(ROUTE, 'utf8'))
  assert.equal(codeIn('Tokens for browsers', 'python'), readFileSync(SERVER, 'utf8'))
  const table = PAGE.split('## What a pod refuses')[1]!.split('## API keys')[0]!
  assert.deepEqual(
    Array.from(table.matchAll(/^\| `([\w-]+)` \|/gm), ([, name]) => name),
    INSECURE_NAMES,
  )
  const scopes = PAGE.split('| scope |')[1]!.split('\n\n')[0]!
  assert.deepEqual(
    new Set(Array.from(scopes.matchAll(/`(\w+:\w+|operate)`/g), ([, name]) => name)),
    new Set(Object.keys({ ...TENANT_SCOPES, ...OPERATOR_SCOPES })),
  )
})

const statementsIn = (section: string, name: string) =>
  codeIn(section, 'sql').replaceAll('fleetline', name).trim().split('\n')

/** Runs the SQL of the guide under a name that is not in use. Resolves to the URL of the database, as its own role. */
async function databaseOfGuide(t: TestContext): Promise<string> {
  const name = `guide_${randomBytes(6).toString('hex')}`
  atEnd(t, async () => {
    await admin(`drop database if exists ${name} with (force)`)
    await admin(`drop role if exists ${name}`)
  })
  for (const statement of statementsIn('The database', name)) await admin(statement)
  const url = new URL(databaseUrlOf(name))
  url.username = name
  return url.href
}

test('the guide to security ends the sessions of whoever has the password of the database', async (t) => {
  const url = await databaseOfGuide(t)
  const intruder = new pg.Client(url)
  let hasEnded = false
  intruder.on('error', () => undefined).once('end', () => (hasEnded = true))
  await intruder.connect()
  for (const statement of statementsIn('When a key leaks', new URL(url).username)) await admin(statement)
  await eventually(() => assert.ok(hasEnded), { what: 'the end of the session' })
})

/** A terminal in a folder of its own. Variables live from one block to the next, as in one shell. */
function terminalFor(t: TestContext, env: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-secure-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const kept = join(folder, 'variables')
  writeFileSync(kept, '')
  const command = `fleetline() { "${process.execPath}" --conditions=fleetline-source "${CLI}" "$@"; }`
  let here = (text: string) => text
  const run = async (text: string) => {
    const script = `. ${kept}\n${command}\n${here(text)}\nexport -p > ${kept}`
    const options = { cwd: folder, env: { ...withoutSettings(process.env), ...env } }
    return (await promisify(execFile)('sh', ['-ec', script], options)).stdout
  }
  return {
    folder,
    run,
    /** What a block names instead of the usual ports. */
    useHosts: (hosts: (text: string) => string) => void (here = hosts),
    /** Runs the blocks of a section, and compares what they print with what the page shows. */
    type: async (section: string, { from = 0, onBlock = async () => undefined }: Typing = {}) => {
      const blocks = blocksOf(section).slice(from)
      for (const [index, { language, text }] of blocks.entries()) {
        if (language !== 'sh') continue
        const isRefused = text.includes('fleetline start')
        const printed = await run(isRefused ? `{ ${text} } 2>&1 || true` : text)
        const shown = blocks[index + 1]
        if (shown?.language === 'text') assert.deepEqual(linesOf(printed), linesOf(shown.text), text)
        await onBlock()
      }
    },
  }
}

/** `onBlock` runs after each block. */
type Typing = { readonly from?: number; readonly onBlock?: () => Promise<unknown> }

/** Without log lines of a pod, and without indentation: a block may stand in a list. */
function linesOf(text: string): string[] {
  const lines = text.split('\n').map((line) => plain(line))
  return lines.filter((line) => line !== '' && !line.startsWith('{'))
}

/** The host of a page: it answers as the route of the guide does, for a browser in which ada is logged in. */
async function pageHostFor(t: TestContext): Promise<string> {
  const { POST } = (await import(ROUTE)) as { readonly POST: (request: Request) => Promise<Response> }
  assert.equal((await POST(new Request('http://page/', { method: 'POST' }))).status, 401)
  const server = createServer(async (_, outgoing) => {
    const answer = await POST(
      new Request('http://page/', { method: 'POST', headers: { cookie: 'user=ada' } }),
    )
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

type Backend = { readonly FLEETLINE_URL: string; readonly FLEETLINE_API_KEY: string }

/** Runs the program of the page, as a browser does. It sends a message, which is stored under the name of its user. */
async function aPageSends(t: TestContext, { FLEETLINE_URL: gateway, FLEETLINE_API_KEY: key }: Backend) {
  const host = await pageHostFor(t)
  const here = codeIn('Tokens for browsers', 'js')
    .replace('https://fleet.example.com', gateway)
    .replace("'/api/fleetline-token'", `'${host}/api/fleetline-token'`)
  const use = `
const session = client.session('trip')
await session.ready
const { seq } = await session.send('Near the station').sent
console.log(seq)
client.close()`
  const words = ['--conditions=fleetline-source', '--input-type=module', '-e', `${here}${use}`]
  const { stdout } = await promisify(execFile)(process.execPath, words, {
    cwd: ROOT,
    env: withoutSettings(process.env),
  })
  assert.equal(stdout, '2\n')
  const log = await call('GET', `${gateway}/v1/sessions/trip/messages`, undefined, key)
  assert.deepEqual(
    (log.body as unknown as Page).items.map(({ author }) => author.id),
    ['ada', 'ada'],
  )
}

async function aTokenOfPythonOpens(t: TestContext, env: Backend): Promise<void> {
  const python = runProgram(t, SERVER, { by: ['python3'], env: { ...env, PORT: '0' } })
  const url = await eventually(() => /Listening on (\S+)/.exec(python.output())![1]!, {
    what: 'the server in Python',
    details: python.output,
  })
  assert.equal((await fetch(url, { method: 'POST' })).status, 401)
  const answer = await fetch(url, { method: 'POST', headers: { cookie: 'user=ada' } })
  assert.equal(answer.status, 200, python.output())
  const trip = `${env.FLEETLINE_URL}/v1/sessions/trip`
  assert.equal((await call('GET', trip, undefined, await answer.text())).status, 200)
}

test('the guide to security does what it says', async (t) => {
  const url = await databaseOfGuide(t)
  const env = { DATABASE_URL: url, FLEETLINE_ALLOW_INSECURE: ALLOWED }
  const terminal = terminalFor(t, env)
  const { type, run, useHosts, folder } = terminal
  await run(codeIn('The database', 'sh'))
  await type('What a pod refuses')
  await type('API keys')

  await run(blocksOf('Start the pods')[0]!.text)
  const ring = async () => (await run('printf "RING%s" "$FLEETLINE_TOKEN_KEYS"')).split('RING')[1]!
  const { gateway, admin: operator } = await podOn(t, url, {
    allowInsecure: ALLOWED,
    tokenKeys: await ring(),
  })
  useHosts((text) =>
    text
      .replaceAll('localhost:4400', new URL(gateway).host)
      .replaceAll('localhost:4401', new URL(operator).host),
  )
  await run(`export FLEETLINE_URL=${gateway}`)
  await type('Start the pods', { from: 1 })
  await type('Tokens for browsers')

  const key = readFileSync(join(folder, 'backend.key'), 'utf8').trim()
  const backend = { FLEETLINE_URL: gateway, FLEETLINE_API_KEY: key }
  Object.assign(process.env, backend)
  await Promise.all([
    type('Tokens of Auth0, Clerk or Supabase'),
    aPageSends(t, backend),
    aTokenOfPythonOpens(t, backend),
  ])
  const rings: string[] = []
  const keep = async () =>
    rings.push(
      tokenKeysOf(await ring())!
        .map(({ id }) => id)
        .join(),
    )
  await type('Rotate keys', { onBlock: keep })
  assert.deepEqual(rings, ['1', '1', '1,2', '2,1', '2'])
  await type('Revoke')
  await type('When a key leaks', { onBlock: keep })
  assert.equal(rings.at(-1), '3')
})
