// Reads what decides about replies that are written anew and about edited messages, under the locks of their sessions.
import { formatId } from '@fleetline/protocol'
import type { LiveTurn } from '../conversation/step.ts'
import type { Query } from '../store/database.ts'
import { ROLES } from './column-codes.ts'
import { keyOf } from './draft.ts'
import {
  nameOf,
  type Rewrite,
  type RewriteFindings,
  type RewriteTarget,
  type SessionState,
  type Stop,
} from './items.ts'

// The target comes from the index of keys; without a key, it is the last reply, or the last message that asks if that is later. A command has
// started the turn of the next epoch, or of the one after if it has stopped a turn. `kept`: replies to earlier messages come before the first
// reply that answers the target, or a later message. Of a command that is too late for its epoch, only the repeat matters.
export const FIND_REWRITES = `
  select k.n::int as n, r.id as turn, r.epoch as epoch,
         (select m.seq from fleetline.messages m
           where m.tenant = s.tenant and m.session = s.id and r.id is not null and m.key = k.own limit 1) as "ownSeq",
         t.seq, t.role, t.author, t.erased as "isErased", t.seq <@ s.replaced as "isReplaced",
         (select count(*)::int from unnest(s.replaced)) as ranges,
         case when t.role = ${ROLES.indexOf('user')} then array(
           select m.seq from fleetline.messages m
            where m.tenant = s.tenant and m.session = s.id and m.seq > t.seq and m.answers < t.seq
              and m.seq < coalesce((
                select a.seq from fleetline.messages a
                 where a.tenant = s.tenant and a.session = s.id and a.seq > t.seq and a.answers >= t.seq order by a.seq limit 1), s.head + 1)
            order by m.seq) end as kept,
         (select u.seq from fleetline.messages u
           where u.tenant = s.tenant and u.session = s.id and u.seq <= t.seq and u.role = ${ROLES.indexOf('user')}
             and not u.erased and not u.seq <@ s.replaced
           order by u.seq desc limit 1) as "askedFrom"
    from unnest($1::int[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[]) with ordinality
         k(tenant, session, key, epoch, cause, own, n)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.session
    left join lateral (
      (select seq, role, author, erased from fleetline.messages
        where k.key is not null and s.epoch = k.epoch and tenant = k.tenant and session = k.session and key = k.key)
      union all
      (select seq, role, author, erased from fleetline.messages
        where k.key is null and s.epoch = k.epoch and tenant = k.tenant and session = k.session
          and (role = ${ROLES.indexOf('assistant')} or seq = s.asked)
          and not erased and not seq <@ s.replaced
        order by seq desc limit 1)) t on true
    left join fleetline.turns r
      on r.tenant = k.tenant and r.session = k.session and r.epoch = any (array[k.epoch + 1, k.epoch + 2])
     and r.cause = decode(k.cause, 'hex')`

type Row = {
  readonly n: number
  readonly turn: string | null
  readonly epoch: number
  readonly ownSeq: number | null
  readonly ranges: number
} & (
  | { readonly seq: null }
  | (Omit<RewriteTarget, 'role' | 'kept'> & {
      readonly role: number
      readonly kept: readonly number[] | null
    })
)

/** By the indexes of the rewrites: what was found, and the stop of the turn that is live. */
export async function findRewrites(
  query: Query,
  rewrites: ReadonlyMap<number, Rewrite>,
  sessions: ReadonlyMap<string, SessionState>,
  cell: number,
): Promise<{
  readonly found: ReadonlyMap<number, RewriteFindings>
  readonly live: ReadonlyMap<number, Stop>
}> {
  if (rewrites.size === 0) return { found: new Map(), live: new Map() }
  const [places, list] = [[...rewrites.keys()], [...rewrites.values()]]
  const rows = await query<Row>(FIND_REWRITES, [
    list.map(({ tenant }) => tenant),
    list.map(({ session }) => session),
    list.map(({ target }) => target),
    list.map(({ epoch }) => epoch),
    list.map(({ cause }) => cause),
    list.map(({ draft }) => draft?.key ?? null),
  ])
  const live = new Map<number, Stop>()
  const isOpen = (item: Rewrite) => {
    const turn = sessions.get(nameOf(item))?.turn
    if (!turn) return false
    return item.target === null ? !item.draft : item.target === keyOf(formatId('message', cell, turn))
  }
  list.forEach((item, index) => {
    const { turn, epoch } = sessions.get(nameOf(item)) ?? { turn: null, epoch: 0 }
    const { tenant, session } = item
    if (turn !== null) live.set(places[index]!, { tenant, session, turn, epoch })
  })
  const found = rows.map(({ n, turn, epoch, ownSeq, ranges, ...row }): [number, RewriteFindings] => {
    const started: LiveTurn | undefined = turn === null ? undefined : { turn, epoch }
    return [
      places[n - 1]!,
      {
        repeat: started && { turn: started, seq: ownSeq },
        isOpen: isOpen(list[n - 1]!),
        ranges,
        target: row.seq === null ? undefined : { ...row, role: ROLES[row.role]!, kept: row.kept ?? [] },
      },
    ]
  })
  return { found: new Map(found), live }
}
