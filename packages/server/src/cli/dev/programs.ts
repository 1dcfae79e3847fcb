// Finds PostgreSQL's installed programs, and the account that runs them: PostgreSQL refuses to run as root.
import { execFile, spawnSync } from 'node:child_process'
import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { bareEnvironment } from '../../config.ts'
import { Rejected } from '../../errors.ts'

export type Programs = {
  /** Their directory; empty if they are in the PATH. */
  readonly place: string
  /** `15.14`. */
  readonly version: string
  readonly major: number
}
export type Account = { readonly uid: number; readonly gid: number }

type Installed = { readonly path: string; readonly programs: Programs; readonly account: Account | undefined }

const OLDEST = 15
// Debian, Red Hat, Homebrew on either kind of Mac, Postgres.app
const PLACES = [
  '/usr/lib/postgresql/*/bin',
  '/usr/pgsql-*/bin',
  '/opt/homebrew/opt/postgresql*/bin',
  '/usr/local/opt/postgresql*/bin',
  '/Applications/Postgres.app/Contents/Versions/*/bin',
]

/** Finds the newest installed version. If there is data, finds the major version that wrote it. Undefined: there is none. */
export function findPrograms(account: Account | undefined, dataMajor?: number): Programs | undefined {
  const found = ['', ...globSync(PLACES)].flatMap((place) => programsIn(place, account) ?? [])
  const fitting = found.filter(({ major }) =>
    dataMajor === undefined ? major >= OLDEST : major === dataMajor,
  )
  return fitting.toSorted((a, b) => b.major - a.major)[0]
}

export function missingPrograms(dataMajor?: number): Rejected {
  const wanted =
    dataMajor === undefined
      ? `PostgreSQL ${OLDEST} or newer`
      : `PostgreSQL ${dataMajor}, which wrote the data in .fleetline,`
  return new Rejected(
    'not_found',
    `${wanted} is not installed here: install it (Debian: apt-get install postgresql, macOS: brew install postgresql), or give --database-url`,
  )
}

/** Undefined if we are not root: then PostgreSQL runs as our user. A machine without PostgreSQL has no user of that name. */
export function findAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8')
  const line = users.match(/^postgres:.*$/m)?.[0] ?? users.match(/^nobody:.*$/m)?.[0]
  if (line === undefined)
    throw new Rejected(
      'not_found',
      'PostgreSQL does not run as root, and there is no user postgres or nobody to run it: run fleetline as another user, or give --database-url',
    )
  const [, , uid, gid] = line.split(':')
  return { uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 } // macOS writes nobody's as -2
}

/** Whether the account may enter the directory and all directories above it. */
export function canEnter(path: string, { uid, gid }: Account): boolean {
  const { mode, uid: owner, gid: group } = statSync(path)
  const bit = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001
  return (mode & bit) !== 0 && (path === dirname(path) || canEnter(dirname(path), { uid, gid }))
}

/** Runs a program to its end, in `path`. Returns its stderr. */
export async function run(
  { path, programs, account }: Installed,
  program: string,
  words: readonly string[],
  { signal, input = '' }: { signal: AbortSignal; input?: string },
): Promise<string> {
  const running = promisify(execFile)(join(programs.place, program), words, {
    ...as(account),
    cwd: path,
    signal,
  })
  const closed = new Promise((resolve) => running.child.once('close', resolve))
  running.child.stdin!.on('error', () => undefined).end(input) // its exit says why it did not read the input
  try {
    return (await running).stderr
  } finally {
    await closed // an aborted program may still write
  }
}

/** Options for a child process under this account. */
export function as(account: Account | undefined) {
  return { env: bareEnvironment(), ...account }
}

/** Undefined: this account cannot run PostgreSQL's programs from there. */
export function programsIn(place: string, account: Account | undefined): Programs | undefined {
  const answer = (program: string) =>
    spawnSync(join(place, program), ['--version'], { ...as(account), cwd: '/', encoding: 'utf8' })
  const version = /\(PostgreSQL\) (\d+[\d.]*)/.exec(answer('postgres').stdout ?? '')?.[1]
  if (version === undefined || answer('initdb').status !== 0) return undefined
  return { place, version, major: Number.parseInt(version, 10) }
}
