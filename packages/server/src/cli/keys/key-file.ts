// Writes an API key into a new file that only its owner can read. A file that exists is never changed, and no part of a key stays
// behind if the write fails.
import { accessSync, closeSync, constants, lstatSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Rejected } from '../../errors.ts'

/** Call it before the key is created: a key that nobody can store would have to be revoked. */
export function refuseAsKeyFile(path: string): void {
  let isThere: boolean
  if (path === '' || /[/\\]$/.test(path))
    throw new Rejected(
      'invalid',
      path === '' ? '--out is empty. Name a file' : `--out: ${path} ends with a slash. Name a file`,
    )
  try {
    isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined
    accessSync(dirname(path), constants.W_OK)
  } catch (cause) {
    throw new Rejected(
      'invalid',
      `--out: ${path} cannot be created: its folder does not exist or is not writable. Name another file`,
      { cause },
    )
  }
  if (isThere)
    throw new Rejected('conflict', `--out: ${path} exists already. Name a new file, or remove this one`)
}

export function writeKeyFile(path: string, key: string): void {
  const file = openSync(path, 'wx', 0o600)
  try {
    writeFileSync(file, `${key}\n`)
  } catch (cause) {
    rmSync(path, { force: true })
    throw cause
  } finally {
    closeSync(file)
  }
}
