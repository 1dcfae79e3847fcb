// The route for usage: how many tokens the agents of a tenant have used.
import { formatId } from '@fleetline/protocol'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { UsageKey, UsageList, UsageRow } from '../usage/list.ts'
import { accessWith, tenantOf } from './caller.ts'
import { notFound } from './session-key.ts'
import { USAGE_LIMITS, usageQuery, usageSchema } from './usage-schemas.ts'

const DAY_MS = 86_400_000

/** Days as YYYY-MM-DD, in UTC. */
export type UsageQuery = {
  readonly by?: UsageKey
  readonly from?: string
  readonly to?: string
  readonly agent?: string
  /** The id of a session. */
  readonly session?: string
  readonly limit?: number
}
export type UsageResult = {
  readonly by: UsageKey
  readonly from: string
  readonly to: string
  readonly rows: readonly UsageRow[]
}

type Deps = {
  readonly usage: Pick<UsageList, 'list'>
  readonly clock: Clock
  readonly cell: number
}

export function usageRoutes({ usage, clock, cell }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/usage',
      summary:
        'Sums the tokens that agents have reported, by day, agent, model or session. A turn counts for the day on which it started, in UTC.',
      access: accessWith('usage:read'),
      query: usageQuery,
      answers: {
        200: { means: 'The sums; days in their order, others by their tokens.', json: usageSchema },
      },
      handle: async ({ principal, query: { by, agent, session, limit, ...range } }) => {
        const tenant = tenantOf(principal)
        const most = by === 'session' || session ? USAGE_LIMITS.sessionDays : USAGE_LIMITS.days
        const { from, to } = daysOf(range, clock, Math.min(most, USAGE_LIMITS.usualDays), most)
        if (session && session.cell !== cell) throw notFound()
        const rows = await usage.list(tenant, { by, from, to, agent, session: session?.uuid, limit })
        const named =
          by === 'session' ? rows.map((row) => ({ ...row, key: formatId('session', cell, row.key) })) : rows
        return { status: 200, body: { by, from, to, rows: named } }
      },
    }),
  ]
}

type Days = { readonly from?: string | undefined; readonly to?: string | undefined }

function daysOf(
  range: Days,
  clock: Clock,
  usual: number,
  most: number,
): { readonly from: string; readonly to: string } {
  const to = range.to ?? dayOf(clock.now())
  const from = range.from ?? dayOf(Date.parse(to) - (usual - 1) * DAY_MS)
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1
  if (days < 1)
    throw new Rejected('invalid', `query.from (on the command line: --from): ${from} is after ${to}`)
  if (days > most)
    throw new Rejected(
      'invalid',
      `query.from (on the command line: --from): ${from} to ${to} is ${days} days. With \`by=session\` or \`session\`, ask for at most ${USAGE_LIMITS.sessionDays} days; otherwise for ${USAGE_LIMITS.days}`,
    )
  return { from, to }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
