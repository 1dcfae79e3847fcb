// Routes for how long the sessions of a tenant are kept.
import type { Agents } from '../agent/agents.ts'
import type { Retention, RetentionRule } from '../erasure/retention.ts'
import { route, type Route } from '../door/route.ts'
import { actorOf } from '../identity/actor.ts'
import { accessWith, tenantOf } from './caller.ts'
import {
  changedRulesSchema,
  previewQuery,
  previewSchema,
  ruleSchema,
  rulesSchema,
} from './erasure-schemas.ts'

type Deps = { readonly retention: Retention; readonly agents: Pick<Agents, 'has'> }

export function retentionRoutes({ retention, agents }: Deps): Route[] {
  /** Only for an agent and days: the answer then says whether the name may be wrong. */
  const checked = async (tenant: number, { agent, keepDays }: Partial<RetentionRule>) =>
    agent === undefined || typeof keepDays !== 'number'
      ? {}
      : { isAgentKnown: await agents.has(tenant, agent) }
  return [
    route({
      method: 'GET',
      path: '/v1/retention',
      summary:
        'Shows how many days sessions are kept after their last message or failed reply. `keepDays` is null without a rule.',
      access: accessWith('sessions:erase'),
      answers: { 200: { means: 'The rules.', json: rulesSchema } },
      handle: async ({ principal }) => ({ status: 200, body: await retention.rules(tenantOf(principal)) }),
    }),
    route({
      method: 'PUT',
      path: '/v1/retention',
      summary:
        'Sets how many days sessions are kept after their last message or failed reply: those of an agent, or all sessions that have no agent, or whose agent has no rule. Fleetline begins within seconds to erase older sessions, and cannot restore them: ask for a preview first.',
      access: accessWith('sessions:erase'),
      body: ruleSchema,
      answers: { 200: { means: 'The rules as they are now.', json: changedRulesSchema } },
      handle: async ({ principal, address, body }) => {
        const tenant = tenantOf(principal)
        const known = await checked(tenant, body) // before the change, so that a fault here cannot hide it
        const rules = await retention.set(tenant, body, actorOf(principal, address))
        return { status: 200, body: { ...rules, ...known } }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/retention/preview',
      summary: 'Counts the sessions that would be erased now. Nothing is erased.',
      access: accessWith('sessions:erase'),
      query: previewQuery,
      answers: { 200: { means: 'The sessions that are older than their rule says.', json: previewSchema } },
      handle: async ({ principal, query: { agent, keepDays } }) => {
        const rule = keepDays === undefined ? undefined : { agent, keepDays }
        const tenant = tenantOf(principal)
        const preview = await retention.preview(tenant, rule)
        return { status: 200, body: { ...preview, ...(await checked(tenant, rule ?? {})) } }
      },
    }),
  ]
}
