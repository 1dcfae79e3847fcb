// Which session the id of a chat names. Guarantees:
//   S3  a caller reaches the sessions that it may see, and no others. A user cannot learn whether a session of others has an alias: an unknown
//       id names a chat of this user alone
import { hash } from 'node:crypto'
import { parseId, SESSION_ALIAS } from '@fleetline/protocol'
import { Rejected } from '../../errors.ts'
import type { Agents } from '../../agent/agents.ts'
import type { Principal } from '../../identity/principal.ts'
import type { Tenants } from '../../identity/tenants.ts'
import type { SessionKey } from '../../session/items.ts'
import type { Sessions } from '../../session/sessions.ts'
import { tenantOf } from '../caller.ts'
import { noDefaultAgent } from '../session-routes.ts'
import { notFound, type SessionKeys } from '../session-key.ts'
import type { ChatRequest } from './chat-request.ts'

export type ChatSessionDeps = Pick<SessionKeys, 'keyOf' | 'maySee'> & {
  readonly sessions: Pick<Sessions, 'create'>
  readonly tenants: Pick<Tenants, 'defaultAgent'>
  readonly agents: Pick<Agents, 'has'>
}

/** A chat's id is the id or alias of a session, or a name that means something only to this caller. */
export async function findSession(
  { keyOf }: Pick<ChatSessionDeps, 'keyOf'>,
  principal: Principal | null,
  id: string,
): Promise<SessionKey | undefined> {
  for (const name of namesOf(principal, id)) {
    try {
      return await keyOf(principal, name)
    } catch (error) {
      if (!(error instanceof Rejected) || error.code !== 'not_found') throw error
    }
  }
  return undefined
}

function namesOf(principal: Principal | null, id: string): string[] {
  return parseId('session', id) ? [id] : [id, aliasFor(principal, id)]
}

function aliasFor(principal: Principal | null, id: string): string {
  const user = principal?.user
  return user ? `chat:${hash('sha256', JSON.stringify([user.id, id]), 'base64url')}` : id
}

/** Makes the session if there is none. */
export async function openSession(
  deps: ChatSessionDeps,
  principal: Principal | null,
  { id, author }: ChatRequest,
): Promise<SessionKey> {
  const found = await findSession(deps, principal, id)
  if (found) return found
  const user = principal?.user
  if (parseId('session', id)) throw notFound()
  if (user && (user.sessions || !user.rights.has('create')))
    throw new Rejected(
      'not_found',
      'There is no such chat for you. To begin one, use a token with the right create that is not limited to sessions.',
    )
  const alias = aliasFor(principal, id)
  if (!SESSION_ALIAS.test(alias))
    throw new Rejected(
      'invalid',
      "Without a user's token, the id of a chat has 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -",
    )
  const tenant = tenantOf(principal)
  const agent = await deps.tenants.defaultAgent(tenant)
  if (agent === null || !(await deps.agents.has(tenant, agent))) throw noDefaultAgent()
  const member = user?.id ?? author
  const members = member === undefined ? [] : [member]
  const made = await deps.sessions.create(tenant, { alias, title: null, metadata: null, agent, members })
  const key = { tenant, session: parseId('session', made.session.session)!.uuid }
  if (!(await deps.maySee(principal, key))) throw notFound()
  return key
}
