// Sessions as the rest of the pod uses them: directory, members, writing to the log, reading and following it, and live
// replies.
import type { Config } from '../config.ts'
import { createByteBudget, type ByteBudget } from '../lib/byte-budget.ts'
import type { Clock } from '../lib/clock.ts'
import { compose, type Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import type { Transactions } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createAppender, type Appender } from './append.ts'
import { createChanges, type SessionChanges } from './changes.ts'
import { deleteChunks } from './chunks.ts'
import { createDirectory, type SessionDirectory } from './directory.ts'
import { createExports, type Exports } from './export.ts'
import { createFeed, type Feed } from './feed.ts'
import { createFollow, type Follow } from './follow.ts'
import { createLive, stopTopic, type Live } from './live.ts'
import { createMembers, type Members } from './members.ts'
import type { Closed, CursorMove, SessionKey, SessionState } from './items.ts'
import { createReplay, type Replay } from './replay.ts'
import { createTurnView, type TurnView } from './turn-view.ts'
import { createVersions, type Versions } from './versions.ts'

export type Sessions = Service &
  SessionDirectory &
  SessionChanges &
  Members &
  Pick<
    Appender,
    'append' | 'endTurn' | 'stopTurn' | 'rewrite' | 'expireTurn' | 'endCompaction' | 'markRead'
  > &
  Replay &
  Follow &
  Exports &
  TurnView &
  Versions &
  Pick<Live, 'openStream'> &
  Pick<Feed, 'reserve'> & {
    /** Call it after a commit that raised the session's version, but neither its head nor its phase. */
    readonly notifyChanged: (key: SessionKey) => void
    /** What all followers of this pod hold in memory. */
    readonly budget: ByteBudget
  }

type Deps = Pick<
  Config,
  | 'cell'
  | 'transactionDeadlineMs'
  | 'maxFollowers'
  | 'stallMs'
  | 'followBytes'
  | 'openTurnBytes'
  | 'openBytes'
> & {
  readonly database: Transactions
  readonly hints: Pick<Hints, 'listen' | 'send'>
  readonly metrics: Metrics
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** Called after a commit that started turns. */
  readonly onTurns: () => void
  /** Called after a commit that moved cursors of members. */
  readonly onRead: (cursors: readonly CursorMove[]) => void
  /** Called after a commit that changed sessions. */
  readonly onMoved: (sessions: Iterable<SessionKey>) => void
  /** Called after a commit that added a user to a session, removed it, or archived or un-archived the session. Without a session: to one that
   *  is new. */
  readonly onMembershipChanged: (tenant: number, user: string, session?: string) => void
}

export function createSessions(deps: Deps): Sessions {
  const { clock, metrics, followBytes: most, stallMs } = deps
  const onCut = () => metrics.count('followersCut', {})
  const budget = createByteBudget({ clock, most, holdMs: stallMs / 4, onCut })
  metrics.gauge('followBytes', () => [[{}, budget.bytes()]])
  const feed = createFeed(deps)
  const onChanged = (key: SessionKey) => {
    feed.notifyChanged(key)
    deps.onMoved([key])
  }
  const replay = createReplay(deps)
  const deadlineMs = deps.transactionDeadlineMs
  const onEnded = (turns: readonly Closed[]) => {
    for (const { outcome, turn } of turns) if (outcome === 'stopped') deps.hints.send(stopTopic(turn))
    void deps.database.transaction((query) => deleteChunks(query, turns)) // if this fails, the leader deletes them
  }
  const onGrown = (sessions: readonly SessionState[]) => {
    feed.grown(sessions)
    deps.onMoved(sessions)
  }
  const appender = createAppender({ ...deps, deadlineMs, onGrown, onEnded })
  const turnView = createTurnView(deps)
  const live = createLive({ ...deps, ...turnView })
  const { append, endTurn, stopTurn, rewrite, expireTurn, endCompaction, markRead } = appender
  const { openStream } = live
  const directory = createDirectory(deps)
  const members = createMembers({ ...deps, deadlineMs })
  return {
    ...compose('sessions', [appender, live]),
    ...directory,
    ...createChanges({ ...deps, deadlineMs, onChanged }),
    ...members,
    append,
    endTurn,
    stopTurn,
    rewrite,
    expireTurn,
    endCompaction,
    markRead,
    ...replay,
    ...createFollow({ ...deps, ...replay, ...feed, ...live, ...turnView, budget }),
    ...createExports({ ...deps, ...replay, ...directory, ...members, reserve: feed.reserve, budget }),
    ...turnView,
    ...createVersions(deps),
    openStream,
    reserve: feed.reserve,
    notifyChanged: onChanged,
    budget,
  }
}
