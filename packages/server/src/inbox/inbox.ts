// The inboxes of users, as the rest of the pod uses them.
import type { InboxPage } from '@fleetline/protocol'
import type { ByteBudget } from '../lib/byte-budget.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Transactions } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createInboxFollow, type InboxFollow } from './follow.ts'
import { itemOf, standingOf, totalsOf } from './item.ts'
import { createPages, type InboxRange } from './pages.ts'
import { createInboxReading, type InboxUser } from './reading.ts'
import { createWatch, type InboxWatch } from './watch.ts'

export type Inbox = Service &
  InboxFollow &
  Pick<InboxWatch, 'moved' | 'membersMoved' | 'cursorsMoved'> & {
    readonly list: (user: InboxUser, range: InboxRange) => Promise<InboxPage>
  }

type Deps = {
  readonly database: Transactions
  readonly hints: Pick<Hints, 'listen' | 'listenTo' | 'send'>
  readonly reserve: () => { readonly leave: () => void }
  readonly budget: ByteBudget
  readonly clock: Clock
  readonly metrics: Metrics
  readonly cell: number
}

export function createInbox(deps: Deps): Inbox {
  const reading = createInboxReading(deps)
  const pages = createPages(reading)
  const watch = createWatch({ ...deps, ...reading })
  return {
    name: 'inbox',
    start: async () => undefined,
    stop: async () => watch.close(),
    moved: watch.moved,
    membersMoved: watch.membersMoved,
    cursorsMoved: watch.cursorsMoved,
    ...createInboxFollow({ ...deps, ...reading, ...pages, ...watch }),
    list: async (user, range) => {
      const reads = reading.newest(user)
      const [{ rows, next }, newest] = await Promise.all([pages.page(user, range, () => reads), reads])
      const items = rows.map((row) => itemOf(row, deps.cell))
      return { items, next, ...totalsOf(newest.map(standingOf)) }
    },
  }
}
