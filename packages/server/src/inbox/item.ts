// What a session is to one of its members. Pure. Guarantees:
//   I2  `rev` only grows, because each of its four parts does: a message raises the head, a turn the phase, the removal of a
//       member the session's version, a read the member's version. A removal raises the session's version by more than the
//       member's version was.
import {
  formatId,
  type Attention,
  type InboxItem,
  type InboxPreview,
  type InboxTotals,
} from '@fleetline/protocol'
import { Bug } from '../errors.ts'
import { endedEpoch } from '../conversation/step.ts'
import { ROLES } from '../session/column-codes.ts'
import { phaseOf } from '../session/feed.ts'

/** A session and the cursor of a member, as stored. */
export type MemberSession = {
  readonly session: string
  readonly head: number
  readonly epoch: number
  readonly turn: string | null
  readonly compacting: string | null
  readonly version: number
  readonly replied: number
  readonly failedEpoch: number | null
  readonly read: number
  readonly readVersion: number
  readonly seenEpoch: number
  readonly archived: boolean
  /** Microseconds since 1970. */
  readonly updatedUs: number
}
/** The same, with everything that a user sees. */
export type ShownSession = MemberSession & {
  readonly alias: string | null
  readonly title: string | null
  readonly agent: string | null
  readonly since: Date | null
  readonly role: number | null
  readonly text: string | null
}

export function unreadOf({ head, read }: Pick<MemberSession, 'head' | 'read'>): number {
  return Math.max(0, head - read) // a restored backup may have a lower head
}

/** A pod of the previous release may have ended a later turn without noting that it did not fail. */
export function attentionOf(row: MemberSession): Attention | null {
  const { failedEpoch, seenEpoch, turn, compacting, replied, read } = row
  if (failedEpoch !== null && failedEpoch === endedEpoch(row) && failedEpoch > seenEpoch) return 'failed'
  if (turn !== null || compacting !== null) return 'working'
  return replied > read ? 'finished' : null
}

export function revOf(row: MemberSession): number {
  return sessionRev(row) + row.readVersion
}

/** The part of the session. */
export function sessionRev(row: Pick<MemberSession, 'head' | 'epoch' | 'turn' | 'version'>): number {
  return row.head + phaseOf(row) + row.version
}

/** What totals need to know of a session, and how new that is. */
export type InboxStanding = {
  readonly rev: number
  readonly archived: boolean
  readonly isUnread: boolean
  readonly needsAttention: boolean
}

export function standingOf(row: MemberSession): InboxStanding {
  const { archived } = row
  return { rev: revOf(row), archived, isUnread: unreadOf(row) > 0, needsAttention: attentionOf(row) !== null }
}

export function totalsOf(standings: Iterable<InboxStanding>): InboxTotals {
  let [unreadTotal, attentionTotal] = [0, 0]
  for (const { archived, isUnread, needsAttention } of standings) {
    if (archived) continue
    unreadTotal += Number(isUnread)
    attentionTotal += Number(needsAttention)
  }
  return { unreadTotal, attentionTotal }
}

export function itemOf(row: ShownSession, cell: number): InboxItem {
  const { session, alias, title, agent, archived, head, read, turn, since, updatedUs } = row
  return {
    session: formatId('session', cell, session),
    alias,
    title,
    agent,
    archived,
    head,
    read,
    unread: unreadOf(row),
    preview: previewOf(row),
    attention: attentionOf(row),
    turn:
      turn === null || since === null
        ? null
        : { id: formatId('turn', cell, turn), since: since.toISOString() },
    updatedAt: new Date(updatedUs / 1000).toISOString(),
    rev: revOf(row),
  }
}

function previewOf({ head, role, text }: ShownSession): InboxPreview | null {
  if (role === null) return null
  const name = ROLES[role]
  if (!name) throw new Bug('A message is stored with a role that this release does not know')
  return { seq: head, role: name, text: text ?? '' }
}
