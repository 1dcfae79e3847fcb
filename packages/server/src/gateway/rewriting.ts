// What callers change in a conversation: a reply is written anew, a message is edited. Guarantees:
//   S3   a caller reaches the sessions that it may see, and no others
//   E10  a repeat of a command gets the answer of the first one
import { hash } from 'node:crypto'
import { formatId, type Ack, type Author, type Id, type RegenerateAck } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import { draftOf, keyOf as keyOfMessage, type MessageDraft } from '../session/draft.ts'
import type { Rewrite, Rewritten, SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import type { AskerIn } from './caller.ts'
import type { SessionKeys } from './session-key.ts'
import { messageOf, type Edit, type Regenerate } from './session-schemas.ts'

export type Rewriting = {
  readonly regenerate: (asking: AskerIn, regenerate: Regenerate) => Promise<RegenerateAck>
  readonly edit: (asking: AskerIn, message: string, edit: Edit) => Promise<Ack>
}
type Deps = Pick<SessionKeys, 'keyOf' | 'explainMissing'> & {
  readonly sessions: Pick<Sessions, 'rewrite'>
  readonly rateLimits: Pick<RateLimits, 'countAppend'>
  readonly cell: number
}

export function createRewriting(deps: Deps): Rewriting {
  const { sessions, rateLimits, keyOf, explainMissing, cell } = deps
  const rewrite = async (
    principal: Principal | null,
    key: SessionKey,
    wanted: Omit<Rewrite, keyof SessionKey>,
  ) => {
    rateLimits.countAppend(principal, key.session) // a repeat counts, too: it costs as much
    const rewritten = await sessions.rewrite({ ...key, ...wanted })
    if (rewritten.type === 'not-found' || (rewritten.type === 'gone' && rewritten.seq === undefined))
      throw await explainMissing(key)
    if (rewritten.type !== 'rewritten') throw refused(rewritten, cell)
    return rewritten
  }
  return {
    regenerate: async ({ principal, session }, { epoch, message, ifHead }) => {
      const key = await keyOf(principal, session)
      const cause = causeOf(['regenerate', epoch, message ?? null])
      const target = message === undefined ? null : keyOfMessage(message)
      const { turn, isRepeat } = await rewrite(principal, key, { epoch, cause, target, ifHead })
      return { ...turnOf(turn, cell), deduped: isRepeat }
    },
    edit: async (
      { principal, part, session },
      replaced,
      { epoch, id, parts, metadata, author: named, ifHead },
    ) => {
      const user = principal?.user
      const by = user?.id ?? named
      const author: Author = { kind: 'user', ...(by !== undefined && { id: by }) }
      const key = await keyOf(principal, session)
      const content = { parts, ...(metadata === undefined ? {} : { metadata }) }
      const cause = causeOf(['edit', key.session, epoch, replaced, id ?? null])
      const said = messageOf({ message: { id, role: 'user', ...content } }, () => idFrom(cause, cell), part)
      const draft: MessageDraft = draftOf({ ...said, author })
      const wanted = { epoch, cause, target: keyOfMessage(replaced), draft, onlyOf: user?.id, ifHead }
      const { seq, turn, isRepeat } = await rewrite(principal, key, wanted)
      return { id: said.id, seq: seq!, deduped: isRepeat, ...turnOf(turn, cell) } // an edit stores a message
    },
  }
}

/** Not made of what the message says: after the message was erased, that could be guessed. */
function causeOf(command: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(command))
}

/** The id of an edited message to which the caller has given none. A repeat of the command gets the same. It has the form of the other ids,
 *  but its time means nothing. */
function idFrom(cause: string, cell: number): Id<'message'> {
  const hex = `${cause.slice(0, 12)}7${cause.slice(13, 16)}8${cause.slice(17, 32)}`
  const uuid = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join(
    '-',
  )
  return formatId('message', cell, uuid)
}

function turnOf({ turn, epoch }: { readonly turn: string; readonly epoch: number }, cell: number) {
  return { turn: formatId('turn', cell, turn), epoch }
}

type Refused = Exclude<Rewritten, { readonly type: 'rewritten' | 'not-found' }>

const UNFIT: Readonly<Record<Extract<Refused, { readonly type: 'unfit' }>['why'], Rejected>> = {
  'no-agent': new Rejected(
    'invalid',
    'This session has no agent, so its messages cannot be edited or regenerated. Create a session with an agent.',
  ),
  role: new Rejected(
    'invalid',
    'Only a message of a user can be edited, and only a reply can be regenerated.',
  ),
  author: new Rejected('forbidden', 'Only its author may edit a message.'),
  'too-many': new Rejected(
    'too_large',
    'This session has 1,000 ranges of replaced messages, the most it can have. Create a new session.',
  ),
  unasked: new Rejected(
    'invalid',
    'No message of a user comes before this one, so there is nothing to answer. Name a later message.',
  ),
}

function refused(rewritten: Refused, cell: number): Rejected {
  switch (rewritten.type) {
    case 'unfit':
      return UNFIT[rewritten.why]
    case 'no-message':
      return new Rejected('not_found', 'There is no such message in this session. Check its id.')
    case 'gone':
      return new Rejected('gone', `The message at seq ${rewritten.seq} was erased.`)
    case 'conflict':
      return new Rejected('conflict', 'The id of the new message is taken: choose another id.')
    case 'stale': {
      const { head, epoch, turn, isCompacting } = rewritten
      const current = { head, epoch, turn: turn && formatId('turn', cell, turn) }
      const text = isCompacting
        ? 'The conversation is being summarised, usually for less than three minutes: send this again then.'
        : `The conversation has changed: it is at epoch ${epoch} and head ${head}, and may have replaced the message. Read it and decide again.`
      return new Rejected('stale', text, { fields: { current } })
    }
  }
}
