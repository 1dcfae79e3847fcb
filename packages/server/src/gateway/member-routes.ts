// Routes for the members of a session.
import { SESSION_LIMITS } from '@fleetline/protocol'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { MemberChange } from '../session/members.ts'
import type { Sessions } from '../session/sessions.ts'
import { accessWith, openToUsers } from './caller.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import { memberParams, memberSchema, membersSchema, sessionParams } from './session-schemas.ts'

type Deps = SessionKeys & { readonly sessions: Pick<Sessions, 'members' | 'addMember' | 'removeMember'> }

export function memberRoutes({ sessions, keyOf }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/sessions/:session/members',
      summary: 'Lists the members of a session.',
      access: openToUsers('sessions:read', 'read'),
      params: sessionParams,
      answers: { 200: { means: 'All members, in the order of their ids.', json: membersSchema } },
      handle: async ({ principal, params }) => {
        const users = await sessions.members(await keyOf(principal, params.session))
        if (!users) throw notFound()
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
        return answerOf(user, await sessions.addMember(await keyOf(principal, session), user))
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
        return answerOf(user, await sessions.removeMember(await keyOf(principal, session), user))
      },
    }),
  ]
}

function answerOf(user: string, change: MemberChange) {
  switch (change) {
    case 'done':
      return { status: 200, body: { user } }
    case 'full':
      throw new Rejected(
        'too_many',
        `A session has at most ${SESSION_LIMITS.members} members: remove one first.`,
      )
    case 'not-found':
      throw notFound()
  }
}
