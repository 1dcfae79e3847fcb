// Turns over HTTP.
import { z } from 'zod'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Sessions } from '../session/sessions.ts'
import { CALLER_ACCESS, type TenantOf } from './caller.ts'
import { turnSchema } from './turn-schemas.ts'

type Deps = { readonly tenantOf: TenantOf; readonly sessions: Pick<Sessions, 'findTurn'> }

export function turnRoutes({ tenantOf, sessions }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/turns/:turn',
      summary: 'One turn: whether it waits, runs, and on which pod, or how it ended.',
      access: CALLER_ACCESS,
      params: z.object({ turn: z.string() }),
      answers: { 200: { means: 'It is here.', json: turnSchema } },
      handle: async ({ principal, params }) => {
        const turn = await sessions.findTurn(await tenantOf(principal), params.turn)
        if (!turn) throw new Rejected('not_found', 'There is no such turn, or it is not yours.')
        return { status: 200, body: turn }
      },
    }),
  ]
}
