// Following a session: what is stored, then what comes, without a seam. A follower reads page after page from where it
// is; at the head it waits for the feed. It holds one page at a time and asks for the next when the one before was
// taken, so that its speed is its own. Guarantees:
//   D1  behind seq k it tells k+1, k+2, … and nothing else; a hole in the log is a bug, and ends it loudly
//   D3  one who is at a seq beyond the head, from the start or because the log was cut, is told so, and goes on from
//       the beginning
import type { GapFrame, MessagesFrame, Page } from '@fleetline/protocol'
import { Bug, Retry } from '../errors.ts'
import type { Feed, Place } from './feed.ts'
import type { SessionKey } from './place.ts'
import type { Replay } from './replay.ts'

/** A frame before it bears the session's name. */
export type Told = Omit<MessagesFrame, 'session'> | Omit<GapFrame, 'session'>

/** Ends when the signal is aborted. It holds a place among the followers, which it gives back when it is asked and ends. */
export type Following = (signal: AbortSignal) => AsyncGenerator<Told, void, undefined>

export type Follow = {
  /** Undefined: there is no such session; nobody is registered before that is known (S4). */
  readonly follow: (key: SessionKey, after: number) => Promise<Following | undefined>
}

type Deps = Replay & Pick<Feed, 'reserve'>

// One page is one frame: what a reader takes before it has a new place to resume from.
const PAGE = { limit: 100, maxBytes: 256 * 1024 }

export function createFollow({ read, reserve }: Deps): Follow {
  return {
    follow: async (key, after) => {
      const place = reserve()
      if (!place) throw new Retry('unavailable', 'This pod has as many followers as it takes')
      let first: Page | undefined
      try {
        first = await read(key, { after, ...PAGE })
      } finally {
        if (!first) place.leave()
      }
      return first && ((signal) => tell({ read, place }, key, { after, first, signal }))
    },
  }
}

type Start = { readonly after: number; readonly first: Page; readonly signal: AbortSignal }

async function* tell(
  { read, place }: Replay & { readonly place: Place },
  key: SessionKey,
  { after, first, signal }: Start,
): ReturnType<Following> {
  try {
    const beyond = place.join(key)
    let last = after
    for (let page: Page | undefined = first; page && !signal.aborted;) {
      if (last > page.head) {
        yield { type: 'gap', reason: 'diverged', from: last + 1, to: 0 }
        last = 0
      } else {
        mustBeDense(page, last)
        if (page.items.length > 0) yield { type: 'messages', ...page }
        last = page.items.at(-1)?.seq ?? last
        if (last >= page.head) await beyond(last, signal)
      }
      if (signal.aborted) return
      page = await read(key, { after: last, ...PAGE })
    }
  } finally {
    place.leave()
  }
}

function mustBeDense({ items, head }: Page, last: number): void {
  const hole = items.findIndex(({ seq }, index) => seq !== last + 1 + index)
  if (hole >= 0 || (items.length === 0 && head > last))
    throw new Bug(`Seq ${last + 1 + Math.max(0, hole)} is not in the log`)
}
