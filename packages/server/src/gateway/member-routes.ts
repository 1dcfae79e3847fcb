// Routes for the members of a session.
import { SESSION_LIMITS } from '@fleetline/protocol'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { MemberChange } from '../session/members.ts'
import type { SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import { accessWith, READ } from './caller.ts'
import type { SessionKeys } from './session-key.ts'
import { memberParams, memberSchema, membersSchema, sessionParams } from './session-schemas.ts'

type Deps = SessionKeys & { readonly sessions: Pick<Sessions, 'members' | 'addMember' | 'removeMember'> }

export function memberRoutes({ sessions, keyOf, explainMissing }: Deps): Route[] {
  const answerTo = async (user: string, key: SessionKey, change: MemberChange) => {
    if (change === 'not-found') throw await explainMissing(key)
    if (change === 'done') return { status: 200, body: { user } }
    throw new Rejected(
      'too_many',
      `A session has at most ${SESSION_LIMITS.members} members: remove one first.`,
    )
  }
  return [
    route({
      method: 'GET',
      path: '/v1/sessions/:session/members',
      summary: 'Lists the members of a session.',
      access: READ,
      params: sessionParams,
      answers: { 200: { means: 'All members, in the order of their ids.', json: membersSchema } },
      handle: async ({ principal, params }) => {
        const key = await keyOf(principal, params.session)
        const users = await sessions.members(key)
        if (!users) throw await explainMissing(key)
        return { status: 200, body: { members: users.map((user) => ({ user })) } }
      },
    }),
    route({
      method: 'PUT',
      path: '/v1/sessions/:session/members/:user',
      summary: `Adds a user to a session; a session has at most ${SESSION_LIMITS.members} members.`,
      access: accessWith('sessions:write'),
      params: memberParams,
      answers: { 200: { means: 'The user is a member.', json: memberSchema } },
      handle: async ({ principal, params: { session, user } }) => {
        const key = await keyOf(principal, session)
        return answerTo(user, key, await sessions.addMember(key, user))
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/sessions/:session/members/:user',
      summary: 'Removes a user from a session.',
      access: accessWith('sessions:write'),
      params: memberParams,
      answers: { 200: { means: 'The user is not a member.', json: memberSchema } },
      handle: async ({ principal, params: { session, user } }) => {
        const key = await keyOf(principal, session)
        return answerTo(user, key, await sessions.removeMember(key, user))
      },
    }),
  ]
}
