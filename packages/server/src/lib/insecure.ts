// Names for the setting `allowInsecure`, and what each allows. Without the name, a failed check of `safety/checks` keeps a pod from
// starting.

export const INSECURE = {
  authentication:
    'requests from this machine need no key, and act as the tenant `dev` or as an operator who may only read; a pod may listen on any address although no API key exists (other callers get 401)',
  origins: 'pages of every origin may call the pod (`*` in corsOrigins)',
  secrets:
    'a secrets key or a token key that can be guessed, or a token key with the id `dev`, as that of `fleetline dev`',
  tls: 'a connection to a database on another host without TLS',
  fsync: 'a database that loses what it has committed when the power fails (`fsync = off`)',
  'synchronous-commit': 'commits that are acknowledged before they are on disk',
  superuser: 'a database role that is a superuser',
  'postgres-version': 'a PostgreSQL older than 15',
} as const

export type InsecureName = keyof typeof INSECURE
export const INSECURE_NAMES = Object.keys(INSECURE) as [InsecureName, ...InsecureName[]]
