// Routes for how long the sessions of a tenant are kept.
import type { Retention } from '../erasure/retention.ts'
import { route, type Route } from '../door/route.ts'
import { actorOf } from '../identity/actor.ts'
import { accessWith, tenantOf } from './caller.ts'
import { previewQuery, previewSchema, ruleSchema, rulesSchema } from './erasure-schemas.ts'

type Deps = { readonly retention: Retention }

export function retentionRoutes({ retention }: Deps): Route[] {
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
      answers: { 200: { means: 'The rules as they are now.', json: rulesSchema } },
      handle: async ({ principal, address, body }) => {
        const rules = await retention.set(tenantOf(principal), body, actorOf(principal, address))
        return { status: 200, body: rules }
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
        return { status: 200, body: await retention.preview(tenantOf(principal), rule) }
      },
    }),
  ]
}
