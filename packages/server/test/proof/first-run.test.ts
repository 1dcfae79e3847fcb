// A stranger's first minute: the packed package in an empty directory, from the registry what it depends on. It needs
// a network, so it is no part of the gate.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { withoutSettings } from '../support/program.ts'

const BUILD = join(import.meta.dirname, '../../../../scripts/build.ts')
const FREE_PORTS = { FLEETLINE_PORT: '0', FLEETLINE_OPERATOR_PORT: '0' }

test('installed in an empty directory, npx fleetline dev is ready', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'fleetline-first-'))
  chmodSync(home, 0o755) // PostgreSQL may run as another user
  atEnd(t, () => rmSync(home, { recursive: true, force: true }))
  execFileSync(process.execPath, [BUILD, '--pack', home], { stdio: 'pipe' })
  writeFileSync(join(home, 'package.json'), '{ "private": true }')
  const tarballs = globSync('*.tgz', { cwd: home }).map((path) => `./${path}`)
  execFileSync('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: home, stdio: 'pipe' })

  const startMs = performance.now()
  const path = `${dirname(process.execPath)}:${process.env['PATH']}`
  const env = { ...withoutSettings(process.env), ...FREE_PORTS, PATH: path }
  const fleet = spawn('npx', ['fleetline', 'dev', '--json'], {
    cwd: home,
    env,
    detached: true,
    stdio: 'pipe',
  })
  const end = (signal: NodeJS.Signals) => process.kill(-fleet.pid!, signal) // as Ctrl-C: npx and its child
  const ended = once(fleet, 'close')
  const isRunning = () => fleet.exitCode === null && fleet.signalCode === null
  atEnd(t, () => isRunning() && end('SIGKILL'))
  let output = ''
  for (const pipe of [fleet.stdout, fleet.stderr])
    pipe.setEncoding('utf8').on('data', (text: string) => (output += text))
  const isReady = () => assert.match(output, /"source":"fleet","level":"info","message":"ready"/)
  await eventually(isReady, { what: 'the fleet', patienceMs: 120_000, details: () => output })
  t.diagnostic(`figure ready_s ${(performance.now() - startMs) / 1000}`)

  const { operator } = JSON.parse(output.split('\n')[0]!) as { operator: string }
  assert.equal((await fetch(`${operator}/readyz`)).status, 200)
  end('SIGINT')
  await ended
  assert.match(output, /"source":"fleet","level":"info","message":"stopped"/)
})
