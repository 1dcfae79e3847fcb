// Finds a message by its id, and what its author has made of it since: an edited message has another id, but a client may know only the
// first one.
import type { Role } from '@fleetline/protocol'
import { valueOf, type Transactions } from '../store/database.ts'
import { ROLES } from './column-codes.ts'
import { keyOf } from './draft.ts'
import type { SessionKey } from './items.ts'

export type Versions = {
  /** The message with this id, or the last of its edits. */
  readonly findVersion: (key: SessionKey, id: string) => Promise<MessageVersion | undefined>
}
export type MessageVersion = {
  readonly id: string
  readonly seq: number
  readonly role: Role
  readonly digest: string
  /** The user who has written it. */
  readonly author: string | null
  readonly isErased: boolean
  /** It belongs to the conversation no more. */
  readonly isReplaced: boolean
  /** It asks for a reply, and no turn has read it yet. */
  readonly isWaiting: boolean
}
type Deps = { readonly database: Transactions }

// An edit is the user's message whose first replaced seq is that of the message before it. The log behind a message is searched only if it
// was replaced.
const FIND = `
  with recursive v as (
    select m.seq, m.id, m.role, m.digest, m.author, m.erased, m.seq <@ s.replaced as replaced,
           s.replaced as gone, s.asked, s.answered, 1 as n
      from fleetline.sessions s
      join fleetline.messages m on m.tenant = s.tenant and m.session = s.id and m.key = $3
     where s.tenant = $1 and s.id = $2
    union all
    select e.seq, e.id, e.role, e.digest, e.author, e.erased, e.seq <@ v.gone, v.gone, v.asked, v.answered, v.n + 1
      from v cross join lateral (
        select * from fleetline.messages m
         where m.tenant = $1 and m.session = $2 and m.seq > v.seq and v.replaced and v.role = ${ROLES.indexOf('user')}
           and m.role = v.role and lower(m.replaces) = v.seq
         order by m.seq limit 1) e)
  select seq, id, role, digest::text, author, erased as "isErased", replaced as "isReplaced",
         seq > answered and seq <= asked and not replaced as "isWaiting" from v order by n desc limit 1`

type Row = Omit<MessageVersion, 'role'> & { readonly role: number }

export function createVersions({ database }: Deps): Versions {
  return {
    findVersion: async ({ tenant, session }, text) => {
      const outcome = await database.transaction(
        (query) => query<Row>(FIND, [tenant, session, keyOf(text)]),
        { access: 'read' },
      )
      const [row] = valueOf(outcome, 'The message cannot be read')
      return row && { ...row, role: ROLES[row.role]! }
    },
  }
}
