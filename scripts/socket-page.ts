// Makes docs/reference/socket.md: commands and their fields come from the route of the socket, limits and close codes from the protocol.
import {
  CLOSE_CODES,
  JOIN_LIMITS,
  SOCKET_LIMITS,
  SOCKET_PROTOCOL,
  TOKEN_PROTOCOL,
  type ServerFrame,
} from '@fleetline/protocol'
import { z } from 'zod'
import type { SocketRoute } from '../packages/server/src/door/socket-route.ts'
import { SETTINGS } from '../packages/server/src/settings.ts'
import { headOf, tableOf } from './pages.ts'

type Shape = {
  readonly description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly not?: object
  readonly enum?: readonly string[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly required?: readonly string[]
  readonly oneOf?: readonly Shape[]
}

const seconds = (ms: number) => `${ms / 1_000} s`
const DEAD_MS = 40_000
const TEXT = { bytes: SOCKET_LIMITS.frameBytes.toLocaleString('en'), hello: seconds(SOCKET_LIMITS.helloMs) }

export function socketPage(route: SocketRoute): string {
  const sections = [
    introOf(route),
    `## Connect\n\n${CONNECT}`,
    `## Commands\n\n${commandsOf(route)}`,
    `## Frames that the pod sends\n\n${framesOf(route)}`,
    `## Resume\n\n${RESUME}`,
    `## Find out that a socket is dead\n\n${LIVENESS}`,
    `## Limits\n\n${limitsTable()}`,
    `## Close codes\n\n${closeCodes()}`,
    `## An exchange\n\n${EXCHANGE}`,
  ]
  return `${headOf('Socket')}${sections.join('\n\n')}\n`
}

function introOf({ path }: SocketRoute): string {
  return `\`GET ${path}\` on the port for applications is a WebSocket: one connection over which a client follows many sessions and an inbox, and sends messages. Each text message is one frame: a JSON object with a \`type\`. Frames are never compressed. Both sides ignore fields that they do not know, and clients ignore frames of types that they do not know. [The guide](../guides/sessions.md#one-socket-for-many-sessions) has a program.`
}

const CONNECT = `Offer the subprotocol \`${SOCKET_PROTOCOL}\`. Send one credential, in one of these places:

${tableOf([
  ['where', 'what', 'for'],
  [
    'the first frame: `{"type": "hello", "token": "…"}`',
    `a token or an API key. The frame must come within ${TEXT.hello}`,
    'pages: a browser cannot set headers',
  ],
  ['the header `authorization: Bearer …`', 'a token or an API key', 'programs'],
  [
    `a second subprotocol: \`${TOKEN_PROTOCOL}…\``,
    `a token. The pod answers with \`${SOCKET_PROTOCOL}\` alone`,
    'clients that can set neither a header nor their first frame',
  ],
  [
    'the URL: `?ticket=…`',
    'a ticket of `POST /v1/tickets`. It is valid once, within 30 s',
    `clients that cannot set a header, and cannot put a token into a frame or a subprotocol. They offer the subprotocol \`${SOCKET_PROTOCOL}\`, too. URLs are logged, so never put a token there`,
  ],
])}

The pod answers the credential with \`welcome\`. If the handshake carries the credential, no \`hello\` is needed. On the machine of \`fleetline dev\`, no credential is needed: send \`{"type": "hello"}\`. Pods read no cookies.

A page of another origin opens a socket only if \`${SETTINGS.corsOrigins.env}\` lists its origin. A page has the same origin as the pod if the host and the port of its origin are those of the header \`host\` of the handshake.

A handshake that is refused gets an HTTP answer with the usual [error](errors.md): 400 without the subprotocol or with two credentials, 401 or 429 for the credential in the header, 403 for the origin, 503 if the pod is full, stops or drains, or if PostgreSQL does not answer. Pages cannot read this answer; they see the close code 1006. If the credential in a subprotocol or in the URL is refused, the socket opens, and the pod closes it with a code and a reason.`

function commandsOf({ commands }: SocketRoute): string {
  const rows = Object.entries(commands).map(([type, { summary, access, frame }]) => [
    `\`${type}\``,
    summary,
    access.audience === 'client' ? `\`${access.scope}\`; user: \`${access.right}\`` : `\`${access.scope}\``,
    fieldsOf(shapeOf(frame, 'input')),
    ANSWERS[type] ?? 'ack',
  ])
  return `A command has a \`type\`, a \`cid\`, and the fields below. The client chooses the \`cid\`: text of 1 to ${SOCKET_LIMITS.cidLength} characters. One \`ack\`, \`joined\` or \`error\` with this \`cid\` answers the command. Use another \`cid\` for each command that is not answered yet.

${tableOf([['type', 'what it does', 'needs', 'fields', 'fields of the answer'], ...rows])}

- **Order.** Commands that name a session by the same text run one after the other. Other commands may run at the same time. So name a session always by its id, or always by its alias, and wait for an answer if the order of two other commands matters.
- **No answer.** If the socket ends before the answer comes, the command may have taken effect. Send it again, over any socket to any pod, with the same message id: it takes effect once.
- **Acknowledged.** An \`ack\` of \`send\`, \`stop\` or \`read\` is sent after the commit. The frame \`messages\` with the message may come before or after it.

Two frames are not commands and have no \`cid\`:

${tableOf([
  ['type', 'what it does', 'fields'],
  [
    '`hello`',
    'Authenticates. Send it again with a new token of the same user before the old token ends; then the socket stays open. If the pod refuses the new token, it answers with `error`, and the old one remains valid until its end. Frames after a `hello` wait until the pod has checked it',
    '`token`?: a token or an API key',
  ],
  ['`ping`', 'Is answered with `pong`', '`n`?: a whole number, which the `pong` repeats'],
])}`
}

const ANSWERS: Readonly<Record<string, string>> = {
  join: '`joined`: see below',
  leave: '`ack`',
  inbox: '`ack`',
  send: '`ack`: `id`, `seq`, `deduped`: whether it was stored before. `turn`?, `epoch`?: the live turn; this turn or the next one replies to the message. Without `turn`, the `epoch` of the turn that will reply',
  stop: '`ack`: `stopped`: false if another turn is live, or none. `seq`: the seq of what the agent had said, null if it had said nothing',
  read: '`ack`: `read`: the read position, `unread`: how many messages come after it',
}

/** One line for each field. */
function fieldsOf({ properties = {}, required = [] }: Shape): string {
  return Object.entries(properties)
    .filter(([, { not }]) => !not) // a field that a client must not send
    .map(([name, { description, default: fallback, enum: values }]) => {
      const marked = required.includes(name) ? `\`${name}\`` : `\`${name}\`?`
      const choice = values && `one of ${values.map((value) => `\`${value}\``).join(', ')}`
      const usual = fallback !== undefined && `default \`${JSON.stringify(fallback).replaceAll('"', '')}\``
      return `${marked}: ${[description, choice, usual].filter(Boolean).join('; ')}`
    })
    .join('<br>')
}

type Told = { readonly fields?: string; readonly when: string }

/** `fields`: those that are not in the schema of the gateway, because the door sends the frame. */
const FRAMES: Readonly<Record<ServerFrame['type'], Told>> = {
  welcome: {
    fields: '`user`, `now`, `tokenExpiresAt`, `tickMs`, `limits`',
    when: 'The credential was accepted, the first or a later one. `user` and `tokenExpiresAt` are null for a key',
  },
  joined: {
    when: 'Answers `join`. `facts` is the session. The first message that follows is the one after the seq `from`; see [Resume](#resume)',
  },
  messages: {
    when: 'Stored messages, in order, directly after those that you received before. `head` is the last seq of the session',
  },
  turn: { when: 'The current state of a turn: queued, running, done, failed or stopped' },
  chunks: {
    when: 'What the agent says, before the reply is stored: `count` chunks, the first of which has the number `index`. If `index` is 0, or `attempt` is higher than before, discard the chunks that you have of this turn',
  },
  erased: { when: 'The messages at these seqs were erased. Forget what they said' },
  gap: {
    when: 'The log has become shorter than what you have, because a backup was restored or a failover lost its end. Forget your data of the session; it is sent again from its first message',
  },
  inbox: {
    when: 'Comes after the command `inbox`: first a page (`reset` is true), then each session that has changed. See [the inbox](../guides/inbox.md#as-events)',
  },
  left: {
    when: 'You do not follow this session, or the inbox (`session` is null), any more. `not_found`: the user is not a member any more. `gone`: the session was erased. `forbidden`: the token does not allow it. After any other code, join again',
  },
  ack: { when: 'Answers a command. Its other fields are in the table of the commands' },
  error: {
    when: 'Answers a command, or a later `hello` (without `cid`). `code` is one of the [error codes](errors.md). Send the command again only if `retryable` is true, after `retryAfterMs`. `current` comes with `stale`',
  },
  expiring: {
    fields: '`at`',
    when: `The token ends at this time, in ${seconds(SOCKET_LIMITS.expiringMs)} or less. Send \`hello\` with a new token of the same user, also if you came by ticket. If you cannot, open another socket with a new ticket`,
  },
  reconnect: {
    fields: '`afterMs`',
    when: 'The pod stops, or drains. Open another socket after this time, join everything there, then close this one',
  },
  tick: { fields: '`now`', when: `Every ${seconds(SOCKET_LIMITS.tickMs)}` },
  pong: { fields: '`n`?', when: 'Answers `ping`' },
}

function framesOf({ frames }: SocketRoute): string {
  const shapes = new Map(
    shapeOf(frames, 'output').oneOf!.map((shape) => [shape.properties!['type']!.const, shape]),
  )
  const namesOf = ({ properties = {}, required = [] }: Shape) =>
    Object.keys(properties)
      .filter((name) => name !== 'type')
      .map((name) => (required.includes(name) ? `\`${name}\`` : `\`${name}\`?`))
      .join(', ')
  const rows = Object.entries(FRAMES).map(([type, { fields, when }]) => [
    `\`${type}\``,
    type === 'ack' ? '`cid`, …' : (fields ?? namesOf(shapes.get(type)!)),
    when,
  ])
  return `A field that is marked with \`?\` may be missing. \`session\` is always the id, also if you joined by an alias. \`cursor\` is the position after this frame.

${tableOf([['type', 'fields', 'when'], ...rows])}

The frames of a session come in the order of its events. Frames of different sessions, of the inbox, and answers may come in any order. Messages, turns, chunks and inbox items have the fields that \`GET /v1/openapi.json\` describes.`
}

const RESUME = `Keep the \`cursor\` of the last frame of each session. After a reconnect, through any pod, join each session again.

${tableOf([
  ['`join` with', 'where to start'],
  ['`cursor`', 'after the frame that had this cursor, also in the middle of a reply'],
  [
    '`after`, and `epoch`',
    'after this seq. With `epoch`, the pod also sends how the turns from this epoch on have ended, at most the last 20',
  ],
  ['neither', `with the last \`limit\` messages (${JOIN_LIMITS.tail} by default)`],
])}

**Look at \`from\` in \`joined\`.** If it is the last seq that you have, you miss nothing. If it is another number, forget your data of this session: the messages after \`from\` follow. This happens if you are more than ${JOIN_LIMITS.behind} messages behind, or if the session is shorter than your copy because a backup was restored. Then the last \`limit\` messages come first. Read older ones with \`GET /v1/sessions/:session/messages?before=\`.

**Limit.** If a restored session has already grown beyond your copy, the pod does not notice that your copy differs.

The inbox has no position: \`inbox\` starts with its first page again. A second \`join\` of a session, or a second \`inbox\`, starts again in place of the first.`

const LIVENESS = `The pod sends \`tick\` every ${seconds(SOCKET_LIMITS.tickMs)}, because pages cannot see the pings of WebSocket. **If no frame has come for ${seconds(DEAD_MS)}, close the socket and connect again.** The pod also pings, and disconnects a client that has sent nothing between two ticks. Browsers and WebSocket libraries answer these pings by themselves.

Wait for a random time before you connect again: up to 500 ms, then up to 1 s, 2 s and so on, at most 30 s. Otherwise all clients of a pod that stops arrive at the same moment.`

function limitsTable(): string {
  return tableOf([
    ['what', 'limit', 'above it'],
    ['a frame from a client', `${TEXT.bytes} bytes`, `close code ${CLOSE_CODES.tooLarge}`],
    [
      'frames from a client, with pings and pongs',
      '100 a second; 400 at once after a pause',
      `close code ${CLOSE_CODES.tooMany}`,
    ],
    ['commands that run at once', '16', 'further ones wait, and the pod reads no more frames'],
    [
      'requests: each command and each `hello` is one',
      'those of the key, the user and the tenant ([rate limits](../guides/sessions.md#rate-limits))',
      '`error` with `rate_limited`; at the first `hello`, close code 1013. With the default of 20 a second, 80 at once, a user who joins more than 80 sessions at once gets this error for some: join those again after `retryAfterMs`',
    ],
    ['sessions that a socket follows', String(SOCKET_LIMITS.joined), '`error` with `too_many`'],
    ['sockets of one user on one pod', String(SOCKET_LIMITS.perUser), `close code ${CLOSE_CODES.tooMany}`],
    [
      'sockets of a pod',
      `\`${SETTINGS.maxSockets.env}\`, ${SETTINGS.maxSockets.fallback} by default`,
      'the handshake is answered with 503',
    ],
    [
      'followers of a pod: each session, and each inbox',
      `\`${SETTINGS.maxFollowers.env}\`, ${SETTINGS.maxFollowers.fallback} by default`,
      '`error` with `unavailable`',
    ],
    [
      'data that waits for a slow client',
      '256 KiB',
      'the pod sends no more frames of sessions and reads no more commands, until less than 64 KiB wait',
    ],
    [
      'a client that takes nothing of what waits',
      `\`${SETTINGS.stallMs.env}\`, ${seconds(Number(SETTINGS.stallMs.fallback))} by default`,
      `close code ${CLOSE_CODES.slow}`,
    ],
    ['the time until the first `hello`', TEXT.hello, `close code ${CLOSE_CODES.overload}`],
  ])
}

type Close = { readonly when: string; readonly reaction: string }
const AGAIN = 'Connect again and resume'

const CLOSES: Readonly<Record<keyof typeof CLOSE_CODES, Close>> = {
  tooLarge: { when: 'A frame was too large', reaction: `${AGAIN}. Do not send that frame again` },
  restart: { when: 'The pod stops, or drains', reaction: `${AGAIN}: another pod takes over` },
  overload: {
    when: `No \`hello\` came within ${TEXT.hello}. Or the handshake or the first \`hello\` exceeded a rate limit. Or the pod cannot check the credential now, for example because PostgreSQL does not answer`,
    reaction: `${AGAIN}, after a longer wait each time`,
  },
  malformed: {
    when: 'A frame is not a JSON object, is nested too deep or is binary, or the first frame is not a well-formed `hello`',
    reaction: 'Do not connect again: the program has a fault, which the reason names',
  },
  unauthenticated: {
    when: 'The credential is missing, is not accepted, has expired or was revoked',
    reaction: 'Get a new token, then connect again and resume. If the new one is refused, too, stop',
  },
  otherUser: {
    when: 'A later `hello` had a token of another user',
    reaction:
      'Do not connect again by yourself. Open another socket for that user, and forget the data of this one',
  },
  slow: {
    when: 'The client reads too slowly. The reason names the last frame that was sent, which may not have arrived',
    reaction: `${AGAIN} from the last cursor that you have`,
  },
  tooMany: {
    when: 'Too many frames, or too many sockets of this user',
    reaction: `${AGAIN}, after a longer wait each time. Close sockets that you do not need`,
  },
}

function closeCodes(): string {
  const rows = Object.entries(CLOSES).map(([name, { when, reaction }]) => [
    String(CLOSE_CODES[name as keyof typeof CLOSE_CODES]),
    when,
    reaction,
  ])
  return `${tableOf([['code', 'when', 'what to do'], ...rows])}\n\nAfter any other code, such as 1006, the connection was lost: connect again and resume. A slow client sees 1006, too, if it begins to read again more than 10 s after the pod has closed its socket. The reason is one sentence, for a log.`
}

/** Lines from the client begin with `>`, those from the pod with `<`. */
const EXCHANGE = `Lines from the client begin with \`>\`, those from the pod with \`<\`. Ids and frames are shortened.

\`\`\`text
> {"type":"hello","token":"eyJhbGci…"}
> {"type":"join","cid":"1","session":"demo","cursor":"2.1"}
< {"type":"welcome","user":"ada","now":"…","tokenExpiresAt":"…","tickMs":25000,"limits":{"frameBytes":524288,"joined":128}}
< {"type":"joined","cid":"1","session":"ses_…","facts":{"session":"ses_…","alias":"demo","head":2,"state":"idle",…},"from":2}
> {"type":"send","cid":"2","session":"demo","message":{"id":"m-3","parts":[{"type":"text","text":"good morning"}]}}
< {"type":"ack","cid":"2","id":"m-3","seq":3,"deduped":false,"turn":"turn_…","epoch":2}
< {"type":"messages","session":"ses_…","items":[{"seq":3,"id":"m-3","role":"user",…}],"head":3,"cursor":"3.1"}
< {"type":"turn","session":"ses_…","turn":{"id":"turn_…","state":"running","epoch":2,…},"cursor":"3.1"}
< {"type":"chunks","session":"ses_…","turn":"turn_…","attempt":1,"index":0,"count":3,"chunks":[{"type":"start",…},…],"cursor":"3.1.1.3"}
< {"type":"chunks","session":"ses_…","turn":"turn_…","attempt":1,"index":3,"count":1,"chunks":[{"type":"text-delta",…}],"cursor":"3.1.1.4"}
< {"type":"messages","session":"ses_…","items":[{"seq":4,"role":"assistant","turn":"turn_…",…}],"head":4,"cursor":"4.1.1.8"}
< {"type":"turn","session":"ses_…","turn":{"id":"turn_…","state":"done","epoch":2,…},"cursor":"4.2"}
< {"type":"tick","now":"…"}
> {"type":"read","cid":"3","session":"demo","seq":4}
< {"type":"ack","cid":"3","read":4,"unread":0}
\`\`\``

function shapeOf(schema: z.ZodType, io: 'input' | 'output'): Shape {
  return z.toJSONSchema(schema, { io }) as Shape
}
