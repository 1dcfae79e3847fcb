// The socket of the port for applications. Its commands do what the routes for sessions and inboxes do.
import { JOIN_LIMITS } from '@fleetline/protocol'
import {
  NATIVE,
  socketCommand,
  socketRoute,
  type SocketAnswer,
  type SocketCommand,
  type SocketRoute,
} from '../../door/socket-route.ts'
import type { Log } from '../../telemetry/log.ts'
import { MARK_READ, READ, SEND, STOP } from '../caller.ts'
import type { Operations } from '../operations.ts'
import { createFeeds, type FeedDeps, type Feeds } from './feeds.ts'
import {
  editFrameSchema,
  inboxOnSchema,
  joinSchema,
  leaveSchema,
  readFrameSchema,
  regenerateFrameSchema,
  sendFrameSchema,
  sentSchema,
  stopFrameSchema,
} from './frames.ts'

type Deps = Omit<FeedDeps, 'onError'> & { readonly operations: Operations; readonly log: Log }

export function sessionSocket(deps: Deps): SocketRoute {
  const onError = (error: unknown) => deps.log.error('follower failed', { service: 'gateway', error })
  return socketRoute<Feeds>({
    path: '/v1/socket',
    summary: 'Follows sessions and the inbox of a user, and sends messages, over one connection.',
    dialect: NATIVE,
    commands: { ...feedCommands(), ...writeCommands(deps.operations) },
    frames: sentSchema,
    open: (peer) => createFeeds({ ...deps, onError }, peer),
  })
}

function feedCommands(): Readonly<Record<string, SocketCommand<Feeds>>> {
  return {
    join: socketCommand({
      summary: `Follows a session from the position of the client. Without a position, or if it is more than ${JOIN_LIMITS.behind} messages behind, the last \`limit\` messages come first. A second \`join\` of a session starts again.`,
      access: READ,
      frame: joinSchema,
      handle: (feeds: Feeds, frame, principal) => feeds.join(frame, principal),
    }),
    leave: socketCommand({
      summary: 'Stops following the session.',
      access: READ,
      frame: leaveSchema,
      handle: async (feeds: Feeds, { session }, principal) => {
        await feeds.leave(session, principal)
        return ackOf({})
      },
    }),
    inbox: socketCommand({
      summary:
        'Starts or stops following the inbox of a user. If the socket follows it already, it starts again.',
      access: READ,
      frame: inboxOnSchema,
      handle: (feeds: Feeds, frame, principal) => feeds.inbox(frame, principal),
    }),
  }
}

function writeCommands(operations: Operations): Readonly<Record<string, SocketCommand<Feeds>>> {
  const part = 'frame'
  return {
    send: socketCommand({
      summary: 'Appends a message. If the client sends it again with the same id, it is stored once.',
      access: SEND,
      frame: sendFrameSchema,
      handle: async (_: Feeds, { session, ...sent }, principal) =>
        ackOf(await operations.send({ principal, part, session }, sent)),
    }),
    stop: socketCommand({
      summary: 'Stops this turn, if it is still the live one.',
      access: STOP,
      frame: stopFrameSchema,
      handle: async (_: Feeds, { session, ...stop }, principal) =>
        ackOf(await operations.stop({ principal, part, session }, stop)),
    }),
    regenerate: socketCommand({
      summary: 'Writes a reply anew, or answers a message of a user anew.',
      access: SEND,
      frame: regenerateFrameSchema,
      handle: async (_: Feeds, { session, ...wanted }, principal) =>
        ackOf(await operations.regenerate({ principal, part, session }, wanted)),
    }),
    edit: socketCommand({
      summary: 'Puts another message in the place of a message of a user, and answers it.',
      access: SEND,
      frame: editFrameSchema,
      handle: async (_: Feeds, { session, message, ...wanted }, principal) =>
        ackOf(await operations.edit({ principal, part, session }, message, wanted)),
    }),
    read: socketCommand({
      summary: "Moves the user's read position. It never moves back.",
      access: MARK_READ,
      frame: readFrameSchema,
      handle: async (_: Feeds, { session, ...read }, principal) =>
        ackOf(await operations.markRead({ principal, part, session }, read)),
    }),
  }
}

function ackOf(fields: object): SocketAnswer {
  return { frame: { type: 'ack', ...fields } }
}
