// Exports a session: its facts, its summary, and its messages from 1 to the head at the beginning, page by page. An export holds one page in
// memory and counts as one follower towards the limits of the pod. Guarantees:
//   L2   the messages are 1..head; a hole is a bug and cuts the export off
//   A reader that gets no `end` has an incomplete export.
import type { ExportLine, Session } from '@fleetline/protocol'
import { Bug } from '../errors.ts'
import type { BudgetShare, ByteBudget } from '../lib/byte-budget.ts'
import type { Clock } from '../lib/clock.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { SessionDirectory } from './directory.ts'
import type { Feed } from './feed.ts'
import type { FollowListener } from './follow.ts'
import type { Members } from './members.ts'
import { MESSAGE_FORMAT } from './message-format.ts'
import type { SessionKey } from './items.ts'
import type { LogPage, Replay } from './replay.ts'

/** A piece is the lines of one page. */
export type Exporting = (listener: FollowListener) => AsyncGenerator<readonly ExportLine[], void, undefined>

export type Exports = {
  /** Undefined: there is no such session. Start the generator once even if you abort: otherwise it never frees its place. */
  readonly exportSession: (key: SessionKey) => Promise<Exporting | undefined>
}
type Deps = Replay &
  Pick<SessionDirectory, 'find'> &
  Pick<Members, 'members'> &
  Pick<Feed, 'reserve'> & {
    readonly database: Transactions
    readonly clock: Clock
    readonly budget: ByteBudget
    readonly cell: number
  }

const PAGE = { limit: 100, maxBytes: 256 * 1024 }
const COPIES = 4 // of what is sent, in memory: as read, as lines, as text, and as bytes being sent

const GONE = { type: 'cut-off', code: 'gone', text: 'The session was erased.' } as const

const SUMMARY = `
  select c.upto as through, c.text from fleetline.sessions s
    join fleetline.summaries c on c.tenant = s.tenant and c.session = s.id and c.upto = s.summarised
   where s.tenant = $1 and s.id = $2`
type Summary = { readonly through: number; readonly text: string }

export function createExports(deps: Deps): Exports {
  const summaryOf = async ({ tenant, session }: SessionKey) => {
    const outcome = await deps.database.transaction((query) => query<Summary>(SUMMARY, [tenant, session]), {
      access: 'read',
    })
    return valueOf(outcome, 'The summary cannot be read')
  }
  return {
    exportSession: async (key) => {
      const [session, members, summaries] = await Promise.all([
        deps.find(key),
        deps.members(key),
        summaryOf(key),
      ])
      if (!session || !members) return undefined
      const exportedAt = new Date(deps.clock.now()).toISOString()
      const opening: ExportLine[] = [
        { type: 'session', format: MESSAGE_FORMAT, exportedAt, session, members },
        ...summaries.map((summary) => ({ type: 'summary', ...summary }) as const),
      ]
      const place = deps.reserve()
      return (listener) => lines({ ...deps, ...listener, key, opening, session, leave: place.leave })
    },
  }
}

type Start = Deps &
  FollowListener & {
    readonly key: SessionKey
    readonly opening: readonly ExportLine[]
    readonly session: Session
    readonly leave: () => void
  }

/** A page ends with the message that brings it to its size. If that message is large, more room is taken and the page is read again. */
async function readPage(
  { read, key, signal }: Pick<Start, 'read' | 'key' | 'signal'>,
  share: BudgetShare,
  after: number,
): Promise<LogPage | undefined> {
  for (let room = PAGE.maxBytes; ;) {
    await share.take(COPIES * room, signal)
    const page = await read(key, { after, ...PAGE })
    if (!page || page.bytes <= room) {
      share.keep(COPIES * (page?.bytes ?? 0))
      return page
    }
    room = page.bytes
  }
}

async function* lines({ opening, session, leave, ...start }: Start): ReturnType<Exporting> {
  const share = start.budget.open(start.cut)
  try {
    if (start.signal.aborted) return
    yield opening
    let seq = 0
    while (seq < session.head && !start.signal.aborted) {
      const page = await readPage(start, share, seq)
      if (!page) return yield [GONE]
      const items = page.items.filter((item) => item.seq <= session.head)
      if (items.some((item, index) => item.seq !== seq + 1 + index) || items.length === 0)
        throw new Bug(`Seq ${seq + 1} of ${session.session} cannot be exported`)
      seq += items.length
      yield items.map((item) => ({ type: 'message', ...item }) as const)
      share.done()
    }
    if (start.signal.aborted) return
    yield [{ type: 'end', session: session.session, messages: seq }]
  } catch (error) {
    if (!start.signal.aborted) throw error
  } finally {
    share.close()
    leave()
  }
}
