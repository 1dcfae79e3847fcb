// What an erasure has done, and what remains where. Pure. The list of what remains is part of what we promise: add to it whatever comes to
// store text, names or ids.
import { formatId, type Erasure, type ErasureKind, type Remains } from '@fleetline/protocol'

export type ErasureRow = {
  readonly id: string
  readonly kind: ErasureKind
  readonly session: string | null
  readonly seq: number | null
  readonly requestedAt: Date
  readonly doneAt: Date | null
  readonly sessions: number
  readonly messages: number
  readonly memberships: number
}
type Facts = { readonly cell: number; readonly auditDays: number }

/** Rows of an erased session are deleted so many days after everything that they said was removed. */
export const TOMBSTONE_DAYS = 30
const MINTED_DAYS = 30 // rows of minted tokens in the audit log
const USAGE_MONTHS = 13
const SWEPT_MINUTES = 5 // more than the minute between two sweeps
const DAY_MS = 86_400_000
const TITLES = {
  message: 'Title, alias and metadata of its session',
  user: 'Titles, aliases and metadata of sessions with other members',
}

export function receiptOf(row: ErasureRow, facts: Facts): Erasure {
  const { id, kind, session, seq, requestedAt, doneAt, sessions, messages, memberships } = row
  return {
    erasure: formatId('erasure', facts.cell, id),
    kind,
    session: session === null ? null : formatId('session', facts.cell, session),
    seq,
    state: doneAt ? 'done' : 'running',
    requestedAt: requestedAt.toISOString(),
    doneAt: doneAt && doneAt.toISOString(),
    erased: { sessions, messages, memberships },
    remains: remainsOf(row, facts),
  }
}

function remainsOf(row: ErasureRow, { auditDays }: Facts): Remains[] {
  const { kind, requestedAt, doneAt } = row
  const after = (days: number) => new Date((doneAt ?? requestedAt).getTime() + days * DAY_MS).toISOString()
  const rows = 'Ids, seqs, roles and times of the erased messages, and ids, states and times of turns'
  const quotes = 'What other messages, and replies of agents, quote'
  return [
    ...(kind === 'message'
      ? [
          { what: 'Id, seq, role and time of the message', where: 'fleetline.messages', until: null },
          {
            what: 'Pieces of a reply that ended just before this request',
            where: 'fleetline.chunks',
            until: after(SWEPT_MINUTES / 1_440),
          },
        ]
      : [
          {
            what: `${rows} of erased sessions`,
            where: 'fleetline.sessions, messages and turns',
            until: doneAt && after(TOMBSTONE_DAYS),
          },
        ]),
    ...(kind === 'user'
      ? [
          { what: `${rows} in sessions with other members`, where: 'fleetline.messages', until: null },
          { what: 'Messages that were sent after this request', where: 'fleetline.messages', until: null },
          {
            what: 'The id of the user, in audit rows of minted tokens',
            where: 'fleetline.audit',
            until: after(MINTED_DAYS),
          },
          {
            what: 'The id of the user, with the time from which its tokens are rejected',
            where: 'fleetline.token_cuts',
            until: after(2),
          },
          {
            what: 'The id of the user, in tickets for sockets, which pods reject',
            where: 'fleetline.tickets',
            until: after(SWEPT_MINUTES / 1_440),
          },
          {
            what: 'The id of the user, in audit rows of its changes and of refused requests',
            where: 'fleetline.audit',
            until: after(auditDays),
          },
        ]
      : []),
    ...(kind === 'session'
      ? []
      : [
          { what: quotes, where: 'fleetline.messages', until: null },
          { what: TITLES[kind], where: 'fleetline.sessions', until: null },
        ]),
    { what: 'Who asked for this, and when', where: 'fleetline.audit', until: after(auditDays) },
    {
      what: 'Ids of sessions and turns, with the numbers of model tokens that were used',
      where: 'fleetline.usage',
      until: after(USAGE_MONTHS * 31),
    },
    {
      what: 'Ids of sessions and turns in tasks, and what your application has put into its own tasks',
      where: 'fleetline.tasks and task_history',
      until: null,
    },
    { what: 'This receipt, with ids and seqs', where: 'fleetline.erasures', until: null },
    { what: 'What agents in code have thrown as errors', where: 'logs of pods', until: null },
    {
      what: 'Old versions of rows in free space of table files, until PostgreSQL uses it again or somebody runs vacuum full',
      where: 'PostgreSQL',
      until: null,
    },
    {
      what: 'Ids, and in some databases a few short texts, in statistics of PostgreSQL, until somebody or autovacuum runs analyze',
      where: 'pg_statistic',
      until: null,
    },
    {
      what: 'Everything, in WAL (pg_wal, until PostgreSQL recycles it), WAL archives, standbys that lag, and backups',
      where: 'PostgreSQL',
      until: null,
    },
    {
      what: 'What agents, and the providers behind them, have kept',
      where: 'agents and providers',
      until: null,
    },
  ]
}
