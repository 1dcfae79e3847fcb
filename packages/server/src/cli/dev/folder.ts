// The directory `.fleetline/`: what a dev fleet keeps between starts, and a lock for the fleet that runs. Git ignores all of
// it. The lock is a file with its owner's process id. It is removed when the owner exits; the lock of a killed owner is taken
// over.
import {
  globSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, relative } from 'node:path'
import { Rejected, Retry } from '../../errors.ts'
import type { Service } from '../../lib/lifecycle.ts'

export type Folder = Service & {
  readonly path: string
  /** The path of a file in the directory. */
  at(name: string): string
  /** Returns a secret kept in a file that only its owner can read. `make` makes it the first time. */
  secret(name: string, make: () => string): string
}

/** Its path in the working directory. */
export const DEV_FOLDER = '.fleetline'
/** The file in it with the secret that signs the calls of `--agent`. */
export const AGENT_SECRET = 'agent-secret'

const TRIES = 5

export function createFolder(path: string): Folder {
  const at = (name: string) => join(path, name)
  const [lock, aside, own] = [at('lock'), at(`lock.${process.pid}`), String(process.pid)]
  const forgetPids = () =>
    globSync('*.pid', { cwd: path }).forEach((name) => rmSync(at(name), { force: true }))
  const release = () => {
    if (read(lock) !== own) return
    forgetPids()
    rmSync(lock, { force: true })
  }
  return {
    name: 'folder',
    path,
    at,
    secret: (name, make) => {
      const kept = read(at(name))
      if (kept) return kept
      const made = make()
      writeFileSync(at(`${name}.new`), made, { mode: 0o600 })
      renameSync(at(`${name}.new`), at(name))
      return made
    },
    start: async () => {
      mkdirSync(path, { recursive: true, mode: 0o755 })
      refuseForeign(path)
      writeFileSync(at('.gitignore'), '*\n')
      process.once('exit', release) // also if a second Ctrl-C ends the process at once
      for (let tries = 0; tries < TRIES; tries += 1) {
        if (place(lock, aside, own)) return forgetPids() // left by a killed fleet; other processes may have these ids now
        const holder = read(lock)
        // In a container, our process id may well be the one of an owner that was killed.
        if (holder !== own && isRunning(holder)) throw held(holder!, lock)
        if (holder !== undefined) removeStale(lock, aside, holder)
      }
      throw new Retry('conflict', 'Another dev fleet starts in this directory: try again')
    },
    stop: async () => release(),
  }
}

/** Shows a path for people: relative if it is in the working directory. */
export function shortPath(path: string): string {
  const short = relative('', path)
  return short.startsWith('..') ? path : short
}

/** Creates the lock atomically, with its content. */
function place(lock: string, aside: string, own: string): boolean {
  writeFileSync(aside, own)
  try {
    linkSync(aside, lock)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(aside, { force: true })
  }
}

/** Removes a stale lock. If another start has placed its own since we read, that one is put back. */
function removeStale(lock: string, aside: string, holder: string): void {
  try {
    renameSync(lock, aside)
    if (read(aside) !== holder) linkSync(aside, lock)
  } catch {
    // another start was faster; the next try reads the lock again
  } finally {
    rmSync(aside, { force: true })
  }
}

/** Rejects a directory that others can write: their data would run as our user, and their links would be written through. */
export function refuseForeign(path: string): void {
  const status = lstatSync(path)
  const isOurs = status.uid === (process.getuid?.() ?? status.uid) && (status.mode & 0o022) === 0
  if (status.isDirectory() && isOurs) return
  throw new Rejected(
    'forbidden',
    `${shortPath(path)} is not a directory that you alone may write to: remove it, or work in another directory`,
  )
}

/** Takes a process id as read from a file. */
export function isRunning(holder: string | undefined): boolean {
  if (holder === undefined || !/^\d+$/.test(holder)) return false
  try {
    return process.kill(Number(holder), 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function held(holder: string, lock: string): Rejected {
  return new Rejected(
    'conflict',
    `A dev fleet runs in this directory, process ${holder}: stop it, or remove ${shortPath(lock)} if that is another program`,
  )
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
