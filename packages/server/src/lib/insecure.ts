// What keeps a pod from starting because it is not secure, unless the setting `allowInsecure` names it. For each name: what it
// allows. `safety/checks` finds out whether a pod needs it.

export const INSECURE = {
  authentication:
    'callers of this machine need no key, and are the tenant `dev` or an operator; others may connect although no key exists',
  origins: 'pages of every origin may call the pod (`*` in corsOrigins)',
  secrets: 'keys of `fleetline dev`, and keys that one can guess',
  tls: 'a connection to a database on another host without TLS',
  fsync: 'a database that loses what it has committed when the power fails (`fsync = off`)',
  'synchronous-commit': 'commits that are acknowledged before they are on disk',
  superuser: 'a database role that is a superuser',
  'postgres-version': 'a PostgreSQL older than 15',
} as const

export type InsecureName = keyof typeof INSECURE
export const INSECURE_NAMES = Object.keys(INSECURE) as [InsecureName, ...InsecureName[]]
