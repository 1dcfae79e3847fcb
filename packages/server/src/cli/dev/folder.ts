// `.fleetline/`: what a dev fleet keeps between starts, and who holds it now. Git ignores all of it. The lock is a file
// with the holder's process id; it goes with its holder's exit, and one whose holder was killed is taken over.
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
  /** The path of a thing in it. */
  at(name: string): string
  /** A secret in it, for its owner's eyes: what `make` answered the first time. */
  secret(name: string, make: () => string): string
}

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
      process.once('exit', release) // also when a second Ctrl-C does not wait for the rest
      for (let tries = 0; tries < TRIES; tries += 1) {
        if (place(lock, aside, own)) return forgetPids() // of a fleet that was killed: the numbers may be others' now
        const holder = read(lock)
        // In a container we may well have the number of a holder that was killed.
        if (holder !== own && isRunning(holder)) throw held(holder!, lock)
        if (holder !== undefined) removeStale(lock, aside, holder)
      }
      throw new Retry('conflict', 'Another dev fleet starts in this directory: try again')
    },
    stop: async () => release(),
  }
}

/** As people write it: from here, if it is in here. */
export function shortPath(path: string): string {
  const short = relative('', path)
  return short.startsWith('..') ? path : short
}

/** The file appears with its content or not at all. */
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

/** Another start may have placed its own since we read: that one is put back. */
function removeStale(lock: string, aside: string, holder: string): void {
  try {
    renameSync(lock, aside)
    if (read(aside) !== holder) linkSync(aside, lock)
  } catch {
    // somebody else was faster: the next try sees
  } finally {
    rmSync(aside, { force: true })
  }
}

/** Data of another user's making would be run, and links of theirs written through, as us. */
function refuseForeign(path: string): void {
  const status = lstatSync(path)
  const isOurs = status.uid === (process.getuid?.() ?? status.uid) && (status.mode & 0o022) === 0
  if (status.isDirectory() && isOurs) return
  throw new Rejected(
    'forbidden',
    `${shortPath(path)} is not a directory that you alone may write to: remove it, or work in another directory`,
  )
}

/** A process by its number, as a file has it. */
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
