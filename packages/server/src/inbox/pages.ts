// Pages of an inbox.
//
//   show        its sessions                                               in this order
//   all         not archived                                               newest first
//   archived    archived                                                   newest first
//   unread      of the newest 1,000: those with unread messages            newest first
//   attention   of the newest 1,000: those that need attention             by what they need, then newest first
// A token that names sessions sees only those, in every view.
import { ATTENTIONS, type InboxShow } from '@fleetline/protocol'
import { attentionOf, unreadOf, type MemberSession, type ShownSession } from './item.ts'
import { isThere, type InboxReading, type InboxUser, type PagePlace } from './reading.ts'

/** `rank` comes first: 0, but in the view of what needs attention. */
export type InboxPlace = PagePlace & { readonly rank: number }
export type InboxRange = {
  readonly show: InboxShow
  readonly after?: InboxPlace | undefined
  readonly limit: number
}
/** `next` is the cursor of the next page; null on the last one. */
export type InboxRows = { readonly rows: readonly ShownSession[]; readonly next: string | null }

// 16 digits are enough until the year 2286, and a number has them exactly.
const PLACE = /^([0-9])\.(\d{1,16})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/** As the cursor of a page. Opaque to clients. */
export function formatPlace({ rank, updatedUs, session }: InboxPlace): string {
  return `${rank}.${updatedUs}.${session}`
}

export function parsePlace(text: string): InboxPlace | undefined {
  const [, rank, updatedUs, session] = PLACE.exec(text) ?? []
  if (!session) return undefined
  return { rank: Number(rank), updatedUs: Number(updatedUs), session }
}

export type InboxPages = {
  /** `newest`: the user's newest sessions, or all that its token names. */
  readonly page: (user: InboxUser, range: InboxRange, newest: Newest) => Promise<InboxRows>
}
type Newest = () => Promise<readonly MemberSession[]>

export function createPages({ page, one }: Pick<InboxReading, 'page' | 'one'>): InboxPages {
  return {
    page: async (user, { show, after, limit }, newest) => {
      const isPlain = user.sessions === undefined && (show === 'all' || show === 'archived')
      if (isPlain) {
        const found = await page(user, { isArchived: show === 'archived', after, limit: limit + 1 })
        const rows = found.slice(0, limit)
        return {
          rows,
          next: found.length > limit ? formatPlace({ ...placeOf(rows.at(-1)!), rank: 0 }) : null,
        }
      }
      const fitting = (await newest()).filter((row) => fits(row, show))
      const places = fitting.map((row) => ({ ...placeOf(row), rank: show === 'attention' ? rankOf(row) : 0 }))
      const behind = places.filter((place) => !after || compare(place, after) > 0).toSorted(compare)
      const shown = behind.slice(0, limit)
      const rows = await Promise.all(shown.map(({ session }) => one({ ...user, session })))
      return {
        // A session may have changed meanwhile, or its user may have been removed.
        rows: rows.filter(isThere).filter((row) => fits(row, show)),
        next: behind.length > limit ? formatPlace(shown.at(-1)!) : null,
      }
    },
  }
}

function fits(row: MemberSession, show: InboxShow): boolean {
  if (show === 'archived' || row.archived) return show === 'archived' && row.archived
  if (show === 'unread') return unreadOf(row) > 0
  return show === 'all' || attentionOf(row) !== null
}

function placeOf({ updatedUs, session }: MemberSession): PagePlace {
  return { updatedUs, session }
}

function rankOf(row: MemberSession): number {
  const attention = attentionOf(row)
  return attention === null ? ATTENTIONS.length : ATTENTIONS.indexOf(attention)
}

function compare(a: InboxPlace, b: InboxPlace): number {
  return (
    a.rank - b.rank ||
    b.updatedUs - a.updatedUs ||
    (a.session < b.session ? 1 : a.session > b.session ? -1 : 0)
  )
}
