// Writes an API key into a new file that only its owner can read. A file that exists is never changed, and no part of a key stays
// behind if the write fails.
import {
  accessSync,
  closeSync,
  constants,
  lstatSync,
  openSync,
  rmSync,
  writeFileSync,
  type Stats,
} from 'node:fs'
import { dirname } from 'node:path'
import { Rejected } from '../../errors.ts'

/** Why a file cannot be created, by the code of the system. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'its folder does not exist',
  EACCES: 'its folder is not writable',
  EROFS: 'its folder is not writable',
}

/** Call it before the key is created: a key that nobody can store would have to be revoked. */
export function refuseAsKeyFile(path: string): void {
  if (path === '') throw new Rejected('invalid', '--out is empty. Name a file')
  if (/[/\\]$/.test(path)) throw new Rejected('invalid', `--out: ${path} ends with a slash. Name a file`)
  const there = findAt(path)
  if (there?.isDirectory()) throw new Rejected('invalid', `--out: ${path} is a folder. Name a file in it`)
  if (there)
    throw new Rejected('conflict', `--out: ${path} exists already. Name a new file, or remove this one`)
}

/** What has this name already. Throws if no file can be created under it. */
function findAt(path: string): Stats | undefined {
  try {
    const there = lstatSync(path, { throwIfNoEntry: false })
    if (!there) accessSync(dirname(path), constants.W_OK)
    return there
  } catch (cause) {
    const { code = 'no reason was given' } = cause as NodeJS.ErrnoException
    throw new Rejected(
      'invalid',
      `--out: ${path} cannot be created: ${REASONS[code] ?? code}. Name another file`,
      { cause },
    )
  }
}

export function writeKeyFile(path: string, key: string): void {
  const file = openSync(path, 'wx', 0o600)
  try {
    fill(file, `${key}\n`)
  } catch (cause) {
    rmSync(path, { force: true })
    throw cause
  }
}

/** Some file systems write, and fail, only when the file is closed. */
function fill(file: number, text: string): void {
  try {
    writeFileSync(file, text)
  } finally {
    closeSync(file)
  }
}
