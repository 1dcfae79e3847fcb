// The data of a dev fleet's PostgreSQL: `.fleetline/pg`, which contains `data`, `password` and `pg_hba.conf`. One role owns one
// database and nothing else, and no other role can log in. The account that runs PostgreSQL owns only `data`.
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync } from 'node:fs'
import { chmodSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Retry } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Random } from '../../lib/random.ts'
import { isRunning, type Folder } from './folder.ts'
import { fetchPrograms, type FetchNews } from './fetched-programs.ts'
import {
  canEnter,
  findAccount,
  findPrograms,
  missingPrograms,
  run,
  type Account,
  type Programs,
} from './programs.ts'

export type Data = DataFolder & { readonly role: string; readonly password: string }

type DataFolder = {
  readonly path: string
  readonly programs: Programs
  readonly account: Account | undefined
}
type Wish = {
  readonly folder: Folder
  readonly random: Random
  readonly signal: AbortSignal
  /** Called before PostgreSQL is fetched, because none is installed. */
  readonly onFetch: (news: FetchNews) => void
}

const ROLE = 'fleetline'
const OUTSIDE = '/var/lib/fleetline'
const EARLIER_MS = 30_000
const LOOK_MS = 50

/** Makes the data if there is none: in another directory that is moved when complete, so that half of it never counts as data. */
export async function openData(wish: Wish): Promise<Data> {
  const place = await placeOf(wish)
  return { ...place, role: ROLE, password: readFileSync(join(place.path, 'password'), 'utf8') }
}

async function placeOf(wish: Wish): Promise<DataFolder> {
  const { folder, random, signal } = wish
  const path = folder.at('pg')
  const account = findAccount()
  if (existsSync(path)) {
    const major = Number.parseInt(readFileSync(join(path, 'data/PG_VERSION'), 'utf8'), 10)
    return { path: realpathSync(path), programs: await programsFor(wish, account, major), account }
  }
  const programs = await programsFor(wish, account)
  const isOutside = account !== undefined && !canEnter(folder.path, account)
  const made = isOutside ? newOutside() : newInside(folder)
  try {
    await initialize({ path: made, programs, account }, random, signal)
    rmSync(path, { force: true }) // removes a link to data that is gone
    if (isOutside) symlinkSync(made, path)
    else renameSync(made, path)
  } catch (cause) {
    rmSync(made, { recursive: true, force: true })
    throw new Retry('unavailable', `The data of PostgreSQL could not be made: ${sayingOf(cause)}`, { cause })
  }
  return { path: realpathSync(path), programs, account }
}

async function programsFor({ signal, onFetch }: Wish, account: Account | undefined, dataMajor?: number) {
  const installed = findPrograms(account, dataMajor)
  if (installed) return installed
  const fetched = await fetchPrograms({ folder: account && OUTSIDE, account, dataMajor, onFetch, signal })
  if (!fetched) throw missingPrograms(dataMajor)
  return fetched
}

function newInside(folder: Folder): string {
  const path = folder.at('pg.new')
  rmSync(path, { recursive: true, force: true }) // left by a start that was killed
  mkdirSync(path)
  return path
}

/** For root: its PostgreSQL runs under an account that cannot enter this directory. `.fleetline/pg` then links to the new one. */
function newOutside(): string {
  mkdirSync(OUTSIDE, { recursive: true, mode: 0o755 })
  return mkdtempSync(join(OUTSIDE, 'pg-'))
}

async function initialize(place: DataFolder, random: Random, signal: AbortSignal): Promise<void> {
  const data = join(place.path, 'data')
  chmodSync(place.path, 0o711)
  mkdirSync(data, { mode: 0o700 })
  if (place.account) chownSync(data, place.account.uid, place.account.gid)
  const words = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-instructions']
  await run(place, 'initdb', ['-D', data, ...words], { signal })
  const password = Buffer.from(random.bytes(24)).toString('hex')
  const input = `create role ${ROLE} login password '${password}'\ncreate database ${ROLE} owner ${ROLE}\n`
  const said = await run(place, 'postgres', ['--single', '-D', data, 'postgres'], { signal, input })
  if (/\bERROR:/.test(said)) throw new Error('its role was refused')
  writeFileSync(join(place.path, 'pg_hba.conf'), `host ${ROLE} ${ROLE} 127.0.0.1/32 scram-sha-256\n`, {
    mode: 0o644,
  })
  writeFileSync(join(place.path, 'password'), password, { mode: 0o600 })
}

/**
 * Waits for a server whose fleet was killed; its guard is shutting it down. It sends no signal, because the process id in the
 * file may belong to another program by now. If the server is still there after the wait, PostgreSQL's own check keeps the new
 * one from starting.
 */
export async function waitForEarlier({ path }: Data, clock: Clock, signal: AbortSignal): Promise<void> {
  const file = join(path, 'data/postmaster.pid')
  const untilMs = clock.monotonicMs() + EARLIER_MS
  const holder = () => (existsSync(file) ? readFileSync(file, 'utf8').split('\n')[0] : undefined)
  while (isRunning(holder()) && clock.monotonicMs() < untilMs) await clock.sleep(LOOK_MS, signal)
}

function sayingOf(cause: unknown): string {
  const { stderr, message } = cause as { stderr?: string; message: string }
  return stderr?.trim().split('\n').at(-1) || message
}
