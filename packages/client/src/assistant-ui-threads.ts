// An inbox as the list of threads of assistant-ui. A thread or a list that has not changed is the same object.
import type { InboxItem } from '@fleetline/protocol'
import type { Inbox } from './inbox.ts'
import type { InboxSnapshot } from './inbox-snapshot.ts'
import { remembered } from './remembered.ts'

/** A part of an inbox, as `useInbox` returns it. */
export type ShownInbox = Pick<InboxSnapshot, 'sessions' | 'loading'>
export type ThreadListOptions = {
  /** The id or the alias of the session that is shown. */
  readonly threadId?: string | undefined
  /** The archived sessions: `useInbox({ show: 'archived' })`. Without it, the list has none. */
  readonly archived?: ShownInbox
  /** Shows this session. */
  readonly onSwitchToThread?: (session: string) => Promise<void> | void
  /** Makes a session and shows it. */
  readonly onSwitchToNewThread?: () => Promise<void> | void
}
/** An `ExternalStoreThreadListAdapter` of assistant-ui. */
export type ThreadList = Omit<ThreadListOptions, 'archived'> & {
  readonly isLoading: boolean
  readonly threads: readonly Thread<'regular'>[]
  readonly archivedThreads: readonly Thread<'archived'>[]
  readonly onRename: (session: string, title: string) => Promise<void>
  readonly onArchive: (session: string) => Promise<void>
  readonly onUnarchive: (session: string) => Promise<void>
}
/** An `ExternalStoreThreadData` of assistant-ui. */
export type Thread<Kind extends 'regular' | 'archived'> = {
  readonly status: Kind
  readonly id: string
  readonly title?: string
  readonly custom: { readonly fleetline: InboxItem }
}

export function toThreadList(
  inbox: ShownInbox & Pick<Inbox, 'change'>,
  { threadId, archived = NONE, ...verbs }: ThreadListOptions = {},
): ThreadList {
  const named = [...inbox.sessions, ...archived.sessions].find(({ alias }) => alias === threadId)
  const change = async (...change: Parameters<Inbox['change']>) => void (await inbox.change(...change))
  return {
    ...verbs,
    threadId: named?.session ?? threadId,
    isLoading: inbox.loading,
    threads: regularThreadsOf(inbox.sessions),
    archivedThreads: archivedThreadsOf(archived.sessions),
    onRename: (session, title) => change(session, { title }),
    onArchive: (session) => change(session, { archived: true }),
    onUnarchive: (session) => change(session, { archived: false }),
  }
}

const NONE: ShownInbox = { sessions: [], loading: false }
const regularThreadsOf = threadsAs('regular')
const archivedThreadsOf = threadsAs('archived')

function threadsAs<Kind extends 'regular' | 'archived'>(status: Kind) {
  const threadOf = remembered((item: InboxItem): Thread<Kind> => ({
    status,
    id: item.session,
    ...(item.title !== null && { title: item.title }),
    custom: { fleetline: item },
  }))
  return remembered((items: readonly InboxItem[]) => items.map(threadOf))
}
