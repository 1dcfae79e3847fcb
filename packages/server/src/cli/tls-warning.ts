// Warns of a connection to a database on another host without TLS, in the words with which a pod refuses to start on one.
import { checkTls } from '../safety/checks.ts'
import type { Output } from './output.ts'

/** To stderr; silent with --json. */
export function warnOfOpenConnection(databaseUrl: string, output: Output): void {
  const { isOk, found, remedy } = checkTls(databaseUrl)
  if (!isOk) output.note(`Warning: ${found}. ${remedy}.`)
}
