// The secret of an agent, from a file that only its owner can read.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Rejected } from '../../errors.ts'
import { AGENT_SECRET, DEV_FOLDER } from '../dev/folder.ts'

export function readSecret(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (cause) {
    throw new Rejected('invalid', `--secret-file: ${path} cannot be read`, { cause })
  }
}

/** The file that a dev fleet in this directory keeps for `--agent`. */
export function devSecretFile(): string {
  const path = join(DEV_FOLDER, AGENT_SECRET)
  if (existsSync(path)) return path
  throw new Rejected(
    'invalid',
    `There is no ${path} here. Name a file with the secret of the agent: --secret-file FILE. To make one, type echo "whsec_$(openssl rand -base64 32)" > FILE, and give the secret to the agent, too`,
  )
}
