// The dev fleet's own PostgreSQL server: data in `.fleetline/pg`, a role that owns one database and nothing else, loopback
// only, with a password. It is as durable as any: what a pod acknowledged is there at the next start.
//
// It runs in its own process group, so that Ctrl-C reaches only the fleet. A guard process runs it and shuts it down when the
// guard's input closes: because we stop it, or because we were killed.
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Retry } from '../../errors.ts'
import { within, type Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'
import { connect } from '../../store/connection.ts'
import { waitForEarlier, openData, type Data } from './data.ts'
import { eventOf, type OnEvent } from './events.ts'
import type { FetchNews } from './fetched-programs.ts'
import { shortPath, type Folder } from './folder.ts'
import { as } from './programs.ts'

type Postgres = Service & {
  url(): string
  /** `15.14`. */
  version(): string
  /** Version and location, for people. */
  description(): string
}

type Deps = {
  readonly folder: Folder
  readonly clock: Clock
  readonly random: Random
  /** How many sessions all pods together may open. */
  readonly connections: number
  /** Preferred; if it is taken, another. */
  readonly port: number
  readonly onEvent: OnEvent
}

const READY_MS = 120_000 // long enough for a first start on a busy disk
const STOP_MS = 30_000
const LOOK_MS = 50

// The guard ends with the server. SIGINT is PostgreSQL's fast shutdown: sessions end, and the data is complete. The guard
// repeats it, because a shell starts background processes with SIGINT ignored: a signal that arrives before PostgreSQL has
// installed its own handler is lost.
const GUARD = `exec 3<&0; "$@" 3<&- & server=$!
{ read -r _ <&3; while kill -INT $server 2>/dev/null; do sleep .1; done; } & watcher=$!
wait $server; code=$?; kill $watcher 2>/dev/null; exit $code`

export function createPostgres(deps: Deps): Postgres {
  const { folder, clock, random } = deps
  const log = folder.at('postgres.log')
  const stopping = new AbortController()
  let [starting, guard, url, data]: [Promise<void>?, ChildProcess?, string?, Data?] = []

  const tellEnd = () =>
    deps.onEvent(
      eventOf('fleet', 'PostgreSQL ended', { now: clock.now(), level: 'error', log: shortPath(log) }),
    )
  const tellFetch = ({ version, into }: FetchNews) =>
    deps.onEvent(
      eventOf('fleet', 'PostgreSQL is not installed here: fetching it with npm, once', {
        now: clock.now(),
        version,
        into,
      }),
    )
  const start = async () => {
    data = await openData({ folder, random, signal: stopping.signal, onFetch: tellFetch })
    await waitForEarlier(data, clock, stopping.signal)
    const port = await freePort(deps.port)
    stopping.signal.throwIfAborted()
    guard = spawnServer(data, { port, log, connections: deps.connections })
    guard.once('exit', () => stopping.signal.aborted || tellEnd())
    url = `postgres://${data.role}:${data.password}@127.0.0.1:${port}/${data.role}`
    await answering({ url, guard, clock, log, signal: stopping.signal })
    writeFileSync(folder.at('database-url'), url, { mode: 0o600 })
  }
  return {
    name: 'postgres',
    url: () => url!,
    version: () => data!.programs.version,
    description: () => `${data!.programs.version} started in ${shortPath(data!.path)}`,
    start: () => (starting ??= start()),
    stop: async () => {
      stopping.abort(new Error('the dev fleet stops'))
      await starting?.catch(() => undefined)
      rmSync(folder.at('database-url'), { force: true })
      if (guard) await stopServer(guard, clock)
    },
  }
}

function spawnServer(
  { path, programs, account }: Data,
  { port, log, connections }: { port: number; log: string; connections: number },
): ChildProcess {
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: connections,
    hba_file: join(path, 'pg_hba.conf'),
  }
  const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const output = openSync(log, 'w', 0o600)
  const server = [join(programs.place, 'postgres'), '-D', join(path, 'data'), ...words]
  const stdio: StdioOptions = ['pipe', output, output]
  const guard = spawn('sh', ['-c', GUARD, 'guard', ...server], {
    ...as(account),
    cwd: path,
    detached: true,
    stdio,
  })
  closeSync(output)
  for (const part of [guard, guard.stdin!]) part.on('error', () => undefined) // only its exit matters
  return guard
}

async function answering(server: {
  readonly url: string
  readonly guard: ChildProcess
  readonly clock: Clock
  readonly log: string
  readonly signal: AbortSignal
}): Promise<void> {
  const { url, guard, clock, log, signal } = server
  const untilMs = clock.monotonicMs() + READY_MS
  for (;;) {
    try {
      return await (await connect({ databaseUrl: url, name: 'fleetline dev', connectMs: 5_000 })).end()
    } catch (cause) {
      if (!hasEnded(guard) && clock.monotonicMs() < untilMs) await clock.sleep(LOOK_MS, signal)
      else
        throw new Retry('unavailable', `PostgreSQL did not start: ${lastLine(log)} (${shortPath(log)})`, {
          cause,
        })
    }
  }
}

async function stopServer(guard: ChildProcess, clock: Clock): Promise<void> {
  if (hasEnded(guard)) return
  const ended = once(guard, 'exit')
  guard.stdin!.end()
  await within(clock, STOP_MS, ended, new Error(`PostgreSQL did not stop within ${STOP_MS} ms`))
}

/** The wanted port, or any free port if it is taken or 0. */
async function freePort(wanted: number): Promise<number> {
  const probe = createServer().listen(wanted, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch (error) {
    if (wanted === 0) throw error
    return freePort(0)
  }
  const { port } = probe.address() as { port: number }
  probe.close()
  await once(probe, 'close')
  return port
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

function lastLine(path: string): string {
  return readFileSync(path, 'utf8').trim().split('\n').at(-1)!
}
