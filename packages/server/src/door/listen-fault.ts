// Why a port cannot be listened on.
import { SETTINGS } from '../settings.ts'

const NOT_OURS = (host: string) =>
  `${host} is not an address of this machine: set ${SETTINGS.host.env} to one, or to 0.0.0.0 for all`
const LISTEN_FAULTS: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: (host, port) =>
    `Port ${port} of ${host} is in use: stop the process that uses it, or set another port`,
  EADDRNOTAVAIL: NOT_OURS,
  ENOTFOUND: NOT_OURS,
  EAI_AGAIN: NOT_OURS,
  EINVAL: NOT_OURS,
  EACCES: (_, port) => `The pod needs a right to listen on port ${port}: choose one from 1024 on`,
}

/** What went wrong, and what to do; undefined if the code is not known. */
export function listenFault(
  code = '',
  { host, port }: { readonly host: string; readonly port: number },
): string | undefined {
  return LISTEN_FAULTS[code]?.(host, port)
}
