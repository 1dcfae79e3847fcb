// Follows a session as AG-UI events.
import { formatId, type Item, type Turn } from '@fleetline/protocol'
import { z } from 'zod'
import { lastState } from '../../ag-ui/state-and-activities.ts'
import type { AgUiEvent } from '../../ag-ui/parse-event.ts'
import { messagesForReader } from '../../ag-ui/messages.ts'
import type { SentEvent } from '../../door/events.ts'
import { route, type Route } from '../../door/route.ts'
import type { Listener } from '../../door/stream.ts'
import type { Random } from '../../lib/random.ts'
import type { Principal } from '../../identity/principal.ts'
import type { SessionKey } from '../../session/items.ts'
import { formatRanges } from '../../session/seq-ranges.ts'
import type { Sessions } from '../../session/sessions.ts'
import { inOrder } from '../../turn/gather.ts'
import { READ } from '../caller.ts'
import type { Operations, SeenFrame } from '../operations.ts'
import { whole } from '../query.ts'
import { itemsFor, turnFor } from '../seen.ts'
import { notFound, type SessionKeys } from '../session-key.ts'
import { sessionParams } from '../session-schemas.ts'
import { agUiCursorSchema, formatAgUiCursor, placesOf, type AgUiCursor } from './cursor.ts'
import { AgUiFeed, type FeedStep } from './ag-ui-feed.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'read' | 'findTurn' | 'readConversation'>
  readonly operations: Pick<Operations, 'follow'>
  readonly cell: number
  readonly random: Random
}
type Reader = { readonly principal: Principal | null; readonly key: SessionKey; readonly limit: number }

export function agUiRoutes(deps: Deps): Route[] {
  const { operations, keyOf, maySee, cell, random } = deps
  return [
    route({
      method: 'GET',
      path: '/v1/sessions/:session/ag-ui',
      summary:
        'Follows the session as AG-UI events: first its last messages as a snapshot, then a run for each reply. To resume without a gap, send the id of the last event as `Last-Event-ID`.',
      access: READ,
      params: sessionParams,
      query: z.object({
        cursor: agUiCursorSchema
          .optional()
          .describe('the id of an event: the events after it. The header comes first'),
        limit: whole(1, 500).default(100).describe('how many messages a snapshot has at most'),
      }),
      headers: z.object({ 'last-event-id': agUiCursorSchema.optional() }),
      answers: {
        200: {
          means: 'A stream of AG-UI events that does not end by itself.',
          agUiEvents: z.looseObject({ type: z.string() }),
        },
      },
      handle: async ({ principal, params, query, headers }) => {
        const key = await keyOf(principal, params.session)
        const given = headers['last-event-id'] ?? query.cursor
        const { at, live } = await startOf(deps, key, given)
        const following = await operations.follow(principal, key, at)
        const reader = { principal, key, limit: query.limit }
        const feed = new AgUiFeed({
          thread: formatId('session', cell, key.session),
          seq: at.seq,
          resumed: given?.where ?? (live ? 'pause' : 'between'), // a reader without an id may have begun this reply before
          mark: () => `-${Buffer.from(random.bytes(4)).toString('hex')}`,
        })
        const begin = given?.where !== 'between' ? feed.begin(live && turnFor(principal, live)) : []
        const recheck = async () => {
          if (!(await maySee(principal, key))) throw notFound()
        }
        return {
          status: 200,
          body: (listener: Listener) =>
            eventsOf(deps, reader, {
              feed,
              begin,
              at,
              following,
              listener,
              isResumed: given !== undefined,
            }),
          recheck,
        }
      },
    }),
  ]
}

/** Where a reader starts. One that begins with a snapshot while a turn is live starts with that turn, behind the messages that it answers. */
async function startOf(
  { sessions, explainMissing, cell }: Deps,
  key: SessionKey,
  given: AgUiCursor | undefined,
): Promise<Pick<AgUiCursor, 'at'> & { readonly live?: Turn }> {
  if (given?.where === 'between') return given
  const page = await sessions.read(key, { before: 1, limit: 0 }) // without any message
  if (!page) throw await explainMissing(key)
  const { head, turn, eraseCount: erased } = page
  const live = turn === null ? undefined : await sessions.findTurn(key.tenant, formatId('turn', cell, turn))
  if (!live || live.endedAt !== null) return { at: { seq: head, ended: undefined, erased } }
  const answered = live.answers.to ?? head
  const replaced = live.replaces?.map(([, to]) => to) ?? []
  return { at: { seq: Math.min(head, Math.max(answered, ...replaced)), ended: live.epoch - 1, erased }, live }
}

type Following = {
  readonly feed: AgUiFeed
  readonly begin: readonly FeedStep[]
  readonly at: AgUiCursor['at']
  readonly following: (listener: Listener) => AsyncIterable<SeenFrame>
  readonly listener: Listener
  readonly isResumed: boolean
}

/** Only the last event of a frame moves the reader past that frame. */
async function* eventsOf(deps: Deps, reader: Reader, following: Following): AsyncGenerator<SentEvent> {
  const { feed, begin, at: start, listener, isResumed } = following
  const left = new AbortController() // ends the wait for the next frame
  const signal = AbortSignal.any([listener.signal, left.signal])
  const iterator = following.following({ ...listener, signal })[Symbol.asyncIterator]()
  const first = iterator.next() // only a started iterator frees the follower's slot when it ends
  first.catch(() => undefined)
  let [before, hasState] = [start, isResumed]
  const send = async function* (
    steps: readonly FeedStep[],
    after: AgUiCursor['at'],
  ): AsyncGenerator<SentEvent> {
    const places = placesOf(steps, { before, after, isInside: feed.isInside })
    for (const [index, step] of steps.entries()) {
      const id = formatAgUiCursor(places[index]!)
      for (const data of isSnapshot(step) ? await restate(deps, reader, step, hasState) : [step]) {
        hasState ||= data.type === 'STATE_SNAPSHOT'
        yield { id, data }
      }
    }
    before = after
  }
  try {
    yield* send(begin, start)
    for (let next = await first; !next.done; next = await iterator.next()) {
      const steps = feed.take(next.value.frame)
      if (steps.some(({ type }) => type === 'cut')) return listener.cut()
      yield* send(steps, next.value.at)
    }
  } finally {
    left.abort()
    await iterator.return?.()
  }
}

/** AG-UI's own client keeps activities that a snapshot leaves out, unless the snapshot says this. */
const OWNS_ACTIVITIES = { '@ag-ui/client': { authoritativeActivityTypes: null } }

type Snapshot = Extract<FeedStep, { readonly type: 'snapshot' }>

function isSnapshot(step: FeedStep): step is Snapshot {
  return step.type === 'snapshot'
}

const SNAPSHOT_BYTES = 524_288

/** The last messages of the conversation, and the state that the agent has left in them. `hasState`: the reader may hold a state, so an
 *  empty one is sent if the messages have none. */
async function restate(
  { sessions }: Deps,
  { principal, key, limit }: Reader,
  { before, without }: Snapshot,
  hasState: boolean,
): Promise<AgUiEvent[]> {
  const also = without.length > 0 ? formatRanges(without) : null
  const page = await sessions.readConversation(key, { before, limit, maxBytes: SNAPSHOT_BYTES, also })
  const items: readonly Item[] = itemsFor(principal, page?.items ?? [])
  const messages = inOrder(items).filter(({ parts }) => parts.length > 0) // others are erased, or not for this reader
  const isWhole = (page?.items[0]?.seq ?? 1) === 1 // earlier messages may have a state
  const state = lastState(items) ?? (hasState && isWhole ? {} : undefined)
  return [
    { type: 'MESSAGES_SNAPSHOT', messages: messages.flatMap(messagesForReader), metadata: OWNS_ACTIVITIES },
    ...(state === undefined ? [] : [{ type: 'STATE_SNAPSHOT', snapshot: state }]),
  ]
}
